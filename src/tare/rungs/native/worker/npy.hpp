// Arrays for the proof of parity, in NumPy's own format (version 1.0, little-endian float32).
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.hpp"

namespace tare {

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

using Arrays = std::vector<std::pair<std::string, Array>>;

inline void write_npy(const std::string& path, const Array& array) {
  std::string shape = "(";
  for (int64_t n : array.shape) shape += std::to_string(n) + ",";
  std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "), }";
  // The head ends in a newline at a multiple of 64 bytes behind the 10 bytes of magic and length.
  head.append(63 - (10 + head.size()) % 64, ' ');
  head += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  uint16_t length = static_cast<uint16_t>(head.size());
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << head;
  file.write(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(float));
  if (!file) throw std::runtime_error("cannot write " + path);
}

// Reads what NumPy writes for row-major little-endian float32; anything else is refused.
inline Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char start[10] = {};
  if (!file.read(start, 10) || std::string(start, 8) != std::string("\x93NUMPY\x01\x00", 8))
    throw std::runtime_error(path + " is not an array of NumPy's format 1.0");
  std::string head(static_cast<unsigned char>(start[8]) + 256 * static_cast<unsigned char>(start[9]), ' ');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  size_t open = head.find("'shape': ("), close = head.find(')', open);
  if (head.find("'<f4'") == std::string::npos || head.find("'fortran_order': False") == std::string::npos ||
      open == std::string::npos || close == std::string::npos)
    throw std::runtime_error(path + " does not hold row-major float32");
  Array array;
  size_t count = 1;
  for (size_t at = open + 10; at < close;) {
    size_t end = 0;
    array.shape.push_back(std::stoll(head.substr(at, close - at), &end));
    count *= static_cast<size_t>(array.shape.back());
    at = head.find_first_of(",)", at + end) + 1;
    while (at < close && head[at] == ' ') ++at;
  }
  array.values.resize(count);
  if (!file.read(reinterpret_cast<char*>(array.values.data()), static_cast<std::streamsize>(count * sizeof(float))) && count)
    throw std::runtime_error(path + " ends too early");
  return array;
}

// A folder of numbered arrays; the list of their names comes last, so that a half-written one is never read.
inline void write_evidence(const std::string& folder, const Arrays& arrays) {
  std::string names = "[";
  for (size_t i = 0; i < arrays.size(); ++i) {
    write_npy(folder + "/" + std::to_string(i) + ".npy", arrays[i].second);
    names += (i ? "," : "") + json_text(arrays[i].first);
  }
  std::ofstream file(folder + "/names.json");
  file << names + "]";
  if (!file) throw std::runtime_error("cannot write " + folder + "/names.json");
}

// What `write_evidence` wrote, or Python's tare.worker.staging.
inline Arrays read_arrays(const std::string& folder) {
  std::ifstream file(folder + "/names.json");
  if (!file) throw std::runtime_error("cannot read " + folder + "/names.json");
  Json names = JsonReader::read({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  Arrays arrays;
  for (size_t i = 0; i < names.list.size(); ++i)
    arrays.emplace_back(names.list[i].as_text(), read_npy(folder + "/" + std::to_string(i) + ".npy"));
  return arrays;
}

}  // namespace tare
