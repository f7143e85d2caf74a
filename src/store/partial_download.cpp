#include "store/partial_download.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

namespace billow::store {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the blob's digest if `name` is that of a file of a download.
std::optional<Digest> downloaded_digest(std::string_view name) {
  for (const std::string_view suffix : {kRecordSuffix, kWritingSuffix, kPartialSuffix}) {
    const size_t at = name.rfind(suffix);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + suffix.size());
    if (suffix == kPartialSuffix ? !rest.empty() : !is_number(rest)) continue;
    const auto digest = Digest::parse(name.substr(0, at));
    if (digest && digest->file_name() == name.substr(0, at)) return digest;
  }
  return std::nullopt;
}

}  // namespace

std::vector<PartialDownload> partial_downloads(const std::string& folder) {
  const std::filesystem::path blobs = folder;
  std::map<Digest, PartialDownload> found;
  for (const std::string& name : children(folder)) {
    const auto digest = downloaded_digest(name);
    const std::string path = blobs / name;
    const auto status = digest ? entry_status(path) : std::nullopt;
    if (!status) continue;
    PartialDownload& download = found[*digest];
    download.digest = *digest;
    download.bytes_path = blobs / digest->file_name().append(kPartialSuffix);
    if (path == download.bytes_path)
      download.has_bytes = true;
    else
      download.others.push_back(path);
    download.modified = std::max(download.modified, status->modified);
    download.n_bytes += std::min(status->size_bytes, status->disk_bytes);
  }
  std::vector<PartialDownload> all;
  for (auto& [digest, download] : found) all.push_back(std::move(download));
  return all;
}

}  // namespace billow::store
