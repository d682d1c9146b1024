// Just enough JSON for the worker protocol: reading a job, writing messages. No library, so that a rung links nothing
// that it does not measure.
#pragma once

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tare {

struct Json {
  enum class Kind { null, boolean, number, text, list, table };

  Kind kind = Kind::null;
  double number = 0;
  bool boolean = false;
  std::string text;
  std::vector<Json> list;
  std::map<std::string, Json> table;

  bool is_null() const { return kind == Kind::null; }

  const Json& operator[](const std::string& name) const {
    static const Json nothing;
    auto found = table.find(name);
    return found == table.end() ? nothing : found->second;
  }

  std::string as_text(const std::string& otherwise = "") const { return kind == Kind::text ? text : otherwise; }
  double as_number(double otherwise = 0) const { return kind == Kind::number ? number : otherwise; }
};

class JsonReader {
 public:
  static Json read(const std::string& source) {
    JsonReader reader(source);
    Json value = reader.value();
    reader.blanks();
    if (reader.at_ != source.size()) reader.fail("something behind the document");
    return value;
  }

 private:
  explicit JsonReader(const std::string& source) : source_(source) {}

  Json value() {
    if (++depth_ > 100) fail("nested too deeply");
    blanks();
    Json made;
    char next = peek();
    if (next == '{') {
      made.kind = Json::Kind::table;
      entries('{', '}', [&] {
        std::string name = text();
        blanks();
        expect(':');
        made.table[name] = value();
      });
    } else if (next == '[') {
      made.kind = Json::Kind::list;
      entries('[', ']', [&] { made.list.push_back(value()); });
    } else if (next == '"') {
      made.kind = Json::Kind::text;
      made.text = text();
    } else if (word("null")) {
    } else if (word("true") || word("false")) {
      made.kind = Json::Kind::boolean;
      made.boolean = source_[at_ - 1] == 'e' && source_[at_ - 2] == 'u';
    } else {
      made.kind = Json::Kind::number;
      char* end = nullptr;
      made.number = std::strtod(source_.c_str() + at_, &end);
      if (end == source_.c_str() + at_) fail("no value");
      at_ = end - source_.c_str();
    }
    --depth_;
    return made;
  }

  template <class Entry>
  void entries(char open, char close, Entry entry) {
    expect(open);
    blanks();
    if (peek() == close) {
      ++at_;
      return;
    }
    for (;;) {
      blanks();
      entry();
      blanks();
      if (peek() == close) {
        ++at_;
        return;
      }
      expect(',');
    }
  }

  std::string text() {
    expect('"');
    std::string made;
    while (peek() != '"') {
      char c = source_[at_++];
      if (c != '\\') {
        made += c;
        continue;
      }
      c = peek();
      ++at_;
      if (c == 'u') {
        unsigned code = std::strtoul(source_.substr(at_, 4).c_str(), nullptr, 16);
        at_ += 4;
        // Names and paths in a job are ASCII; anything else is kept recognisable.
        made += code < 128 ? static_cast<char>(code) : '?';
      } else {
        made += c == 'n' ? '\n' : c == 't' ? '\t' : c;
      }
    }
    ++at_;
    return made;
  }

  bool word(const char* wanted) {
    std::string expected(wanted);
    if (source_.compare(at_, expected.size(), expected) != 0) return false;
    at_ += expected.size();
    return true;
  }

  char peek() const {
    if (at_ >= source_.size()) fail("the document ends early");
    return source_[at_];
  }

  void expect(char wanted) {
    if (peek() != wanted) fail(std::string("no '") + wanted + "'");
    ++at_;
  }

  void blanks() {
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_]))) ++at_;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error("bad JSON at " + std::to_string(at_) + ": " + why);
  }

  const std::string& source_;
  size_t at_ = 0;
  int depth_ = 0;
};

inline std::string json_text(const std::string& text) {
  std::string made = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
      made += static_cast<char>(c);
    } else if (c < 32) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      made += code;
    } else {
      made += static_cast<char>(c);
    }
  }
  return made + "\"";
}

template <class Number>
std::string json_list(const std::vector<Number>& numbers) {
  std::string made = "[";
  for (const auto& number : numbers) made += (made.size() > 1 ? "," : "") + std::to_string(number);
  return made + "]";
}

}  // namespace tare
