// Names of functions that a library does not export, from the .symtab in its file. The wheels of torch are not stripped.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

namespace tare::frames {

class SymbolTable {
 public:
  explicit SymbolTable(const std::string& path) {
    int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat about {};
    if (::fstat(file, &about) == 0 && about.st_size >= static_cast<off_t>(sizeof(ElfW(Ehdr)))) {
      size_ = about.st_size;
      void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) data_ = static_cast<const char*>(memory);
    }
    ::close(file);
  }
  ~SymbolTable() {
    if (data_) ::munmap(const_cast<char*>(data_), size_);
  }
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  // Calls `visit(name, start, size)` for every function, with its address inside the library.
  void functions(const std::function<void(const char*, uintptr_t, size_t)>& visit) const {
    const auto* head = at<ElfW(Ehdr)>(0, 1);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return;
    const auto* sections = at<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
    if (!sections) return;
    for (int i = 0; i < head->e_shnum; ++i) {
      bool table = sections[i].sh_type == SHT_SYMTAB || sections[i].sh_type == SHT_DYNSYM;
      if (!table || sections[i].sh_link >= head->e_shnum) continue;
      const auto& strings = sections[sections[i].sh_link];
      size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
      const auto* symbols = at<ElfW(Sym)>(sections[i].sh_offset, count);
      const auto* names = at<char>(strings.sh_offset, strings.sh_size);
      if (!symbols || !names || strings.sh_size == 0 || names[strings.sh_size - 1] != '\0') continue;
      for (size_t k = 0; k < count; ++k)
        if ((symbols[k].st_info & 0xf) == STT_FUNC && symbols[k].st_value && symbols[k].st_name < strings.sh_size)
          visit(names + symbols[k].st_name, symbols[k].st_value, symbols[k].st_size);
    }
  }

  uintptr_t find(const char* wanted) const {
    uintptr_t found = 0;
    functions([&](const char* name, uintptr_t start, size_t) {
      if (!found && std::strcmp(name, wanted) == 0) found = start;
    });
    return found;
  }

 private:
  template <class T>
  const T* at(size_t offset, size_t count) const {
    if (!data_ || offset > size_ || count > (size_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tare::frames
