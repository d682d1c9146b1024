// Prepared data (docs/train.md): images of bytes with a table of what each byte stands for, mapped into memory, and the
// order in which training reads them. tare/workloads/datasets/batches.py does the same.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "npy.hpp"

namespace tare {

// A file as an array of numbers, little-endian as this machine.
template <class T>
class MappedFile {
 public:
  MappedFile(const std::string& path, int64_t expected) {
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw std::runtime_error("cannot read " + path);
    struct stat status {};
    ::fstat(descriptor, &status);
    bytes_ = static_cast<size_t>(status.st_size);
    count = static_cast<int64_t>(bytes_ / sizeof(T));
    bool fits = bytes_ % sizeof(T) == 0 && (expected < 0 || count == expected);
    if (fits && bytes_ > 0) data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    ::close(descriptor);
    if (!fits || data_ == MAP_FAILED) throw std::runtime_error(path + " has another size than its header says");
  }
  ~MappedFile() {
    if (data_) ::munmap(data_, bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const T& operator[](int64_t i) const { return static_cast<const T*>(data_)[i]; }

  int64_t count = 0;

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class TrainingImages {
 public:
  // `job` is the field `batches` of a job.
  explicit TrainingImages(const Json& job)
      : folder_(job["folder"].as_text()), header_(read_header()), channels_(size("channels")),
        height_(size("height")), width_(size("width")), images_(size("train")), input_(list(job["input"])),
        target_(list(job["target"])), pixels_(folder_ + "/train.images.u8", images_ * channels_ * height_ * width_),
        labels_(folder_ + "/train.labels.i64", images_), levels_(folder_ + "/levels.f32", channels_ * 256) {
    if (input_.empty() || target_.empty()) throw std::runtime_error("the job names no shape of a batch");
  }

  // How many images a batch has. Of sequences the first dimension is time.
  int64_t batch() const { return input_.size() == 3 ? input_[1] : input_[0]; }

  // The input and the target of the images with these indices.
  Arrays make(const MappedFile<int64_t>& order, int64_t start) const {
    bool rows = input_.size() == 3;
    Array input{input_, std::vector<float>(product(input_))}, target{target_, std::vector<float>(product(target_))};
    for (int64_t i = 0; i < batch(); ++i) {
      int64_t image = order[start + i];
      if (image < 0 || image >= images_) throw std::runtime_error("the order names an image that is not there");
      for (int64_t k = 0; k < channels_ * height_ * width_; ++k) {
        float value = levels_[k / (height_ * width_) * 256 + pixels_[image * channels_ * height_ * width_ + k]];
        // One row of the image per time step.
        int64_t to = rows ? (k / width_ * batch() + i) * width_ + k % width_ : i * channels_ * height_ * width_ + k;
        input.values.at(static_cast<size_t>(to)) = value;
      }
      if (!rows) target.values.at(static_cast<size_t>(i)) = static_cast<float>(labels_[image]);
      else
        for (int64_t t = 0; t < target_[0]; ++t)
          target.values.at(static_cast<size_t>((t * batch() + i) * target_[2] + labels_[image])) = 1;
    }
    return {{"input", std::move(input)}, {"target", std::move(target)}};
  }

 private:
  Json read_header() const {
    std::ifstream file(folder_ + "/header.json");
    if (!file) throw std::runtime_error("cannot read " + folder_ + "/header.json");
    return JsonReader::read({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }

  int64_t size(const char* name) const { return static_cast<int64_t>(header_[name].as_number()); }

  static std::vector<int64_t> list(const Json& json) {
    std::vector<int64_t> values;
    for (const auto& item : json.list) values.push_back(static_cast<int64_t>(item.as_number()));
    return values;
  }

  static size_t product(const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (int64_t n : shape) count *= static_cast<size_t>(n);
    return count;
  }

  std::string folder_;
  Json header_;
  int64_t channels_, height_, width_, images_;
  std::vector<int64_t> input_, target_;
  MappedFile<unsigned char> pixels_;
  MappedFile<int64_t> labels_;
  MappedFile<float> levels_;
};

}  // namespace tare
