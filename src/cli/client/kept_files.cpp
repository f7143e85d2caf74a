#include "cli/client/kept_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/cache_folder.h"

namespace billow::cli {

std::string kept_files_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/billow/kept";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.cache/billow/kept";
}

KeptFiles::KeptFiles(const std::string& folder, const std::string& model,
                     const std::vector<LocalFile>& files)
    : path_(folder.empty() ? "" : folder + "/" + cache_name(model)), text_(model + "\n") {
  for (const LocalFile& file : files) {
    struct stat status{};
    (void)::stat(file.path.c_str(), &status);  // the reader of a missing file reports it
    // The times show a change while the files were sent.
    text_ += fmt::format("{} {} {} {}.{:09} {}.{:09} {}\n", status.st_dev, status.st_ino,
                         status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                         status.st_ctim.tv_sec, status.st_ctim.tv_nsec, file.path);
  }
}

bool KeptFiles::are_stored() const {
  if (path_.empty()) return false;
  std::ifstream file(path_, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {}) == text_;
}

void KeptFiles::store() const {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << text_;
}

}  // namespace billow::cli
