// The worker: speaks docs/protocol.md around a Program. Include it in one file of an executable.
#pragma once

#include <dlfcn.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <csignal>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <sstream>

#include "audit.hpp"
#include "dataset.hpp"
#include "sampler.hpp"

namespace tare {

class Channel {
 public:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}

  void send(const std::string& message) const {
    std::string line = message + "\n";
    for (size_t done = 0; done < line.size();) {
      ssize_t wrote = ::write(descriptor_, line.data() + done, line.size() - done);
      if (wrote <= 0) std::exit(70);
      done += wrote;
    }
  }

  void stage(const std::string& name) const { send("{\"kind\":\"stage\",\"name\":" + json_text(name) + "}"); }

 private:
  int descriptor_;
};

class HostMeter {
 public:
  HostMeter() : start_(field("VmRSS:")) { reset(); }

  void mark_prepared() {
    prepare_peak_ = field("VmHWM:");
    reset();
  }

  std::string json() const {
    return "{\"peak\":" + std::to_string(field("VmHWM:")) + ",\"prepare_peak\":" + std::to_string(prepare_peak_) +
           ",\"start\":" + std::to_string(start_) + ",\"method\":\"VmHWM after reset\"}";
  }

 private:
  static void reset() { std::ofstream("/proc/self/clear_refs") << "5"; }

  static long long field(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      long long kib = 0;
      if (word == name && status >> kib) return kib * 1024;
    }
    return 0;
  }

  long long start_ = 0, prepare_peak_ = 0;
};

// A failure to profile is a reason, not an error: the timing is complete.
inline std::string step_profile(Program& program, double step_s) {
  auto steps = static_cast<int64_t>(std::ceil(0.1 / std::max(step_s, 1e-6)));
  Net net;
  try {
    net = program.net(std::min<int64_t>(std::max<int64_t>(steps, 3), 50));
  } catch (const std::exception& error) {
    net = Net::unknown("profiling failed: " + std::string(error.what()).substr(0, 200));
  }
  std::ostringstream text;
  text << std::setprecision(9) << "{\"kind\":\"step-profile\",\"net\":{\"steps\":" << net.steps << ",\"busy_s\":";
  if (net.busy_s) text << *net.busy_s;
  else text << "null";
  text << ",\"upper_bound\":" << (net.upper_bound ? "true" : "false") << ",\"method\":" << json_text(net.method)
       << ",\"reason\":" << json_text(net.reason) << "}}";
  return text.str();
}

inline void measure(const Json& job, const Channel& channel) {
  HostMeter host;
  channel.stage("build");
  int64_t began = now_ns();
  auto program = make_program(job);
  int64_t built = now_ns();
  channel.stage("prepare");
  time_block(*program, 1);
  double prepare_s = (now_ns() - built) / 1e9;
  host.mark_prepared();
  program->mark_prepared();
  channel.send("{\"kind\":\"prepared\",\"build_s\":" + std::to_string((built - began) / 1e9) +
               ",\"prepare_s\":" + std::to_string(prepare_s) + ",\"cache\":\"none\"}");
  channel.stage("sample");
  TimedEvidence evidence(*program);
  Sampler sampler(*program, evidence, job["budget_s"].as_number(1), job["width"].as_number(0.01));
  sampler.run([&](const Series& series) { channel.send("{\"kind\":\"measured\",\"series\":" + series.json() + "}"); });
  std::string device = "null";
  if (auto memory = program->device_memory())
    device = "{\"allocated_peak\":" + std::to_string(memory->allocated_peak) +
             ",\"reserved_peak\":" + std::to_string(memory->reserved_peak) + "}";
  channel.send("{\"kind\":\"weighed\",\"host\":" + host.json() + ",\"device\":" + device + "}");
  channel.stage("audit");
  if (evidence.has_nan()) throw Failure("nan", "the result of a timed step is not a number");
  audit(*program, sampler.pipelined_steps, sampler.pipelined_step_s, sampler.latency_s);
  if (job["profile"].boolean) {
    channel.stage("profile");
    channel.send(step_profile(*program, sampler.pipelined_step_s));
  }
  std::string folder = job["evidence"].as_text();
  if (!folder.empty()) {
    channel.stage("parity");
    write_evidence(folder, evidence.arrays());
  }
}

// The losses of a step on each batch of an order, from the weights as they are.
inline std::vector<Array> train(Program& program, const TrainingImages& images, const std::string& path) {
  MappedFile<int64_t> order(path, -1);
  std::vector<Array> losses;
  for (int64_t start = 0; start + images.batch() <= order.count; start += images.batch()) {
    program.feed(images.make(order, start));
    program.step();
    program.synchronize();
    losses.push_back(program.fetch().at(0).second);
  }
  return losses;
}

inline Arrays follow_curve(Program& program, const Json& batches) {
  TrainingImages images(batches);
  program.rewind();
  Arrays named;
  for (auto& loss : train(program, images, batches["orders"].list.at(0).as_text()))
    named.emplace_back("loss/" + std::to_string(named.size() + 1), std::move(loss));
  return named;
}

// Trains for one epoch after the other. Each leaves a checkpoint, in a folder that is there already.
inline void train_epochs(Program& program, const Json& job, const Channel& channel) {
  TrainingImages images(job["batches"]);
  program.rewind();
  program.restore(read_arrays(job["checkpoint"].as_text()));
  auto epoch = static_cast<int64_t>(job["first"].as_number());
  for (const auto& order : job["batches"]["orders"].list) {
    double sum = 0;
    std::vector<Array> losses = train(program, images, order.as_text());
    for (const auto& loss : losses) sum += loss.values.at(0);
    double mean = sum / static_cast<double>(std::max<size_t>(losses.size(), 1));
    write_evidence(job["save"].as_text() + "/" + std::to_string(epoch), program.checkpoint());
    std::ostringstream text;
    text << std::setprecision(17) << "{\"kind\":\"trained-epoch\",\"epoch\":" << epoch << ",\"loss\":";
    if (std::isfinite(mean)) text << mean;
    else text << "null";
    channel.send(text.str() + "}");
    ++epoch;
  }
}

// One step under the preloaded counter of frames (docs/frames.md), after steps in which libraries make up their minds.
inline void count_frames(Program& program) {
  using Call = void (*)(void (*)(void*), void*);
  auto call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, "tare_frames_call"));
  if (!call) throw Failure("exception", "the counter of frames is not preloaded");
  for (int i = 0; i < 3; ++i) program.step();
  program.synchronize();
  call([](void* state) { static_cast<Program*>(state)->step(); }, &program);
  program.synchronize();
}

// What a job other than a round asks for; none of it is timed.
inline void answer(const Json& job, const Channel& channel) {
  channel.stage("build");
  auto program = make_program(job);
  channel.stage("prepare");
  if (job["kind"].as_text() == "frames") return count_frames(*program);
  if (!program->trains()) throw Failure("unsupported", "only a program that trains takes the batches of a job");
  if (job["kind"].as_text() == "train") return train_epochs(*program, job, channel);
  channel.stage("parity");
  write_evidence(job["evidence"].as_text(), follow_curve(*program, job["batches"]));
}

inline std::string failed(const std::string& cause, const std::string& message) {
  std::string line = message.substr(0, message.find('\n')).substr(0, 500);
  return "{\"kind\":\"failed\",\"failure\":{\"cause\":" + json_text(cause) + ",\"message\":" + json_text(line) +
         ",\"detail\":" + json_text(message.substr(0, 8000)) + "}}";
}

inline int work() {
  const char* descriptor = std::getenv("TARE_FD");
  if (!descriptor) {
    std::cerr << "a tare worker is started by tare: see docs/protocol.md\n";
    return 2;
  }
#ifdef __linux__
  // A worker must not go on measuring for nobody.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  Channel channel(std::atoi(descriptor));
  try {
    std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    Json job = JsonReader::read(text);
    job["kind"].as_text("round") == "round" ? measure(job, channel) : answer(job, channel);
    channel.send("{\"kind\":\"done\"}");
    return 0;
  } catch (const Failure& failure) {
    channel.send(failed(failure.cause, failure.what()));
  } catch (const std::bad_alloc&) {
    channel.send(failed("host-oom", "an allocation failed"));
  } catch (const std::exception& error) {
    std::string text = error.what();
    bool device = text.find("out of memory") != std::string::npos;
    bool host = text.find("DefaultCPUAllocator") != std::string::npos;
    channel.send(failed(device ? "device-oom" : host ? "host-oom" : "exception", text));
  }
  return 1;
}

}  // namespace tare
