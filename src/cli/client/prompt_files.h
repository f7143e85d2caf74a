// Finds the paths of pictures and sounds in a prompt, reads the files and removes the paths from
// the text. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

struct NamedFile {
  std::string written;  // as in the text, including quotes
  std::string path;     // without quotes and escapes
};

// Returns the paths in the text, in order. A path begins with '/', "./", "../", '\' or a drive
// letter and ends with .jpg, .jpeg, .png, .webp or .wav. A blank in a path needs a backslash before
// it, or quotes around the path.
std::vector<NamedFile> files_named_in(std::string_view text);

struct PromptFiles {
  std::string text;                   // without the paths of files that were read
  std::vector<std::string> contents;  // base64
  std::string notes;                  // one line per file
};
// Reads the files. Paths of missing files stay in the text. Throws Error for a file that cannot be
// read, is larger than 100 MB, or has another format than its name says.
PromptFiles take_files(std::string_view text);

}  // namespace billow::cli
