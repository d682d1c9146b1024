// The execution plan that lowering/plan.py wrote: values at fixed offsets in a few memory regions, and ops in order.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "../native/worker/program.hpp"

namespace tare::vendor {

struct Value {
  std::string name, dtype, region;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0, size = 1;
  bool last = false;
  char* data = nullptr;

  int64_t element() const { return dtype == "f32" ? 4 : dtype == "i64" || dtype == "f64" ? 8 : dtype == "u8" ? 1 : 2; }
  int64_t bytes() const { return size * element(); }
  // The memory layout of images and filters. It is stored, because the strides of a single pixel are the same in both
  // layouts, while the filter of a larger window over it is not.
  bool channels_last() const { return last; }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct Op {
  std::string kind, module;
  std::map<std::string, Value*> in, out;
  Json attributes;

  Value* find(const std::string& role) const {
    auto entry = in.find(role);
    if (entry != in.end()) return entry->second;
    entry = out.find(role);
    return entry == out.end() ? nullptr : entry->second;
  }

  Value& operator[](const std::string& role) const {
    Value* entry = find(role);
    if (!entry) throw std::runtime_error("the operator " + kind + where() + " lacks its " + role);
    return *entry;
  }

  std::string where() const { return module.empty() ? "" : " of " + module; }
  int64_t integer(const std::string& name) const { return static_cast<int64_t>(attributes[name].as_number()); }
  double number(const std::string& name) const { return attributes[name].as_number(); }
  std::string activation() const { return attributes["activation"].as_text(); }
  std::vector<int64_t> integers(const std::string& name) const { return list(attributes[name]); }

  static std::vector<int64_t> list(const Json& json) {
    std::vector<int64_t> result;
    for (const auto& item : json.list) result.push_back(static_cast<int64_t>(item.as_number()));
    return result;
  }
};

struct Parameter {
  std::string name;
  Value *master, *gradient;
};

// A weight that no step may change: it is frozen, or the loss does not depend on it.
struct Fixed {
  std::string name;
  Value* value;
};

struct ExecutionPlan {
  explicit ExecutionPlan(const std::string& folder) {
    std::ifstream file(folder + "/plan.json");
    if (!file) throw std::runtime_error("cannot read " + folder + "/plan.json");
    Json json = JsonReader::read({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    dtype = json["dtype"].as_text();
    updates = json["updates"].boolean;
    for (const auto& [name, bytes] : json["regions"].table) regions[name] = static_cast<int64_t>(bytes.as_number());
    values.reserve(json["values"].list.size());
    for (const auto& entry : json["values"].list) values.push_back(read_value(entry));
    for (const auto& entry : json["ops"].list) ops.push_back(read_op(entry));
    for (const auto& entry : json["inputs"].list) inputs.push_back(at(entry));
    for (const auto& entry : json["outputs"].list) outputs.push_back(at(entry));
    for (const auto& entry : json["parameters"].list)
      parameters.push_back({entry["name"].as_text(), at(entry["master"]), at(entry["gradient"])});
    for (const auto& entry : json["fixed"].list) fixed.push_back({entry["name"].as_text(), at(entry["value"])});
    std::ifstream data(folder + "/data.bin", std::ios::binary);
    for (const auto& entry : json["contents"].list) {
      Value* value = at(entry["value"]);
      std::vector<char> bytes(value->bytes());
      data.seekg(static_cast<int64_t>(entry["at"].as_number()));
      if (!data.read(bytes.data(), bytes.size())) throw std::runtime_error(folder + "/data.bin is too short");
      contents.emplace_back(value, std::move(bytes));
    }
  }

  std::string dtype;
  bool updates = false;
  std::map<std::string, int64_t> regions;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Value*> inputs, outputs;
  std::vector<Parameter> parameters;
  std::vector<Fixed> fixed;
  std::vector<std::pair<Value*, std::vector<char>>> contents;

 private:
  static Value read_value(const Json& json) {
    Value result;
    result.name = json["name"].as_text();
    result.dtype = json["dtype"].as_text();
    result.region = json["region"].as_text();
    result.shape = Op::list(json["shape"]);
    result.strides = Op::list(json["strides"]);
    result.last = json["channels_last"].boolean;
    result.offset = static_cast<int64_t>(json["offset"].as_number());
    for (int64_t n : result.shape) result.size *= n;
    return result;
  }

  Op read_op(const Json& json) {
    Op result;
    result.kind = json["kind"].as_text();
    result.module = json["module"].as_text();
    result.attributes = json["attributes"];
    for (const auto& [role, index] : json["in"].table) result.in[role] = at(index);
    for (const auto& [role, index] : json["out"].table) result.out[role] = at(index);
    return result;
  }

  Value* at(const Json& index) { return &values.at(static_cast<size_t>(index.as_number())); }
};

}  // namespace tare::vendor
