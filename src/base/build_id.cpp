#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace billow {
namespace {

constexpr std::array<char, 4> kOwner = {'G', 'N', 'U', '\0'};

constexpr size_t padded(size_t n) { return (n + 3) / 4 * 4; }

std::string digits_of(const unsigned char* bytes, size_t n) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// Searches one segment of notes. Each note is a header, the owner's name and the content.
std::string find_in(const unsigned char* at, size_t n_bytes) {
  while (n_bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const size_t name = sizeof note;
    const size_t content = name + padded(note.n_namesz);
    const size_t next = content + padded(note.n_descsz);
    if (next > n_bytes) break;
    const std::string_view owner(reinterpret_cast<const char*>(at) + name, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && owner == std::string_view(kOwner.data(), kOwner.size()))
      return digits_of(at + content, note.n_descsz);
    at += next;
    n_bytes -= next;
  }
  return {};
}

// Visits the program, which is the first object. A result other than 0 ends the walk.
int visit(dl_phdr_info* object, size_t, void* out) {
  for (size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the linker gives addresses as numbers
    const auto* notes = reinterpret_cast<const unsigned char*>(object->dlpi_addr + segment.p_vaddr);
    std::string id = find_in(notes, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(out) = std::move(id);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(visit, &id);
  return id;
}

}  // namespace billow
