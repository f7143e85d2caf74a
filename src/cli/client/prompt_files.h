// Pictures and sounds that a prompt names by their paths: found, read and taken out of the text.
// Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

struct NamedFile {
  std::string written;  // as it stands in the text, quotes included
  std::string path;     // without quotes and escapes
};

// Paths that begin with '/', "./", "../", '\' or a drive letter and end in .jpg, .jpeg, .png, .webp
// or .wav, in the order of the text. A blank in one is behind a backslash, or the path is quoted.
std::vector<NamedFile> files_named_in(std::string_view text);

struct PromptFiles {
  std::string text;                   // without the paths of the files that were read
  std::vector<std::string> contents;  // base64
  std::string notes;                  // a line about each
};
// Paths where nothing lies stay in the text. Throws Error for a file that cannot be read, is larger
// than 100 MB, or is not what its name says.
PromptFiles take_files(std::string_view text);

}  // namespace billow::cli
