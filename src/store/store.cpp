#include "store/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "gguf/atomic_file.h"
#include "store/partial_download.h"

namespace billow::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPartBytes = size_t{1} << 18;

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// Returns the file name of a blob in old stores.
std::string old_file_name(const Digest& digest) { return digest.text(); }

// Replaces `part` by its spelling in `spellings`. Prefers an exact match.
void spell_as_stored(std::string& part, const std::set<std::string>& spellings) {
  if (spellings.contains(part)) return;
  for (const std::string& spelling : spellings) {
    if (!equal_ignoring_case(spelling, part)) continue;
    part = spelling;
    return;
  }
}

// Returns whether the file is from an unfinished write of gguf::AtomicFile.
bool is_unfinished(std::string_view file_name) {
  constexpr std::string_view kMark = ".partial-";
  const size_t at = file_name.rfind(kMark);
  if (at == std::string_view::npos) return false;
  const std::string_view number = file_name.substr(at + kMark.size());
  return !number.empty() &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

// Removes empty folders from `folder` upwards, up to the folder `top`, and ignores failures.
void discard_empty_folders(std::string folder, const std::string& top) {
  for (; folder != top; folder = parent_of(folder))
    if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) return;
}

}  // namespace

struct Store::State {
  explicit State(const std::string& folder) : lock(folder + "/.billow-lock") {}
  StoreLock lock;
  std::mutex mutex;  // guards `held` and the removal of blobs that are not in it
  std::multiset<Digest> held;
};

Store::Store(std::string folder, StoreOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
  state_ = std::make_unique<State>(folder_);
}

Store::~Store() = default;

std::string Store::path_of(const Name& name) const {
  // Only valid names may become paths: their parts cannot lead out of the folder.
  BILLOW_CHECK(is_valid(name));
  return manifests_folder() + "/" + manifest_path(name);
}

void Store::begin(std::string_view step) const {
  if (options_.before_step) options_.before_step(step);
}

void Store::require_writable() const {
  fs::path folder = blobs_folder();
  while (folder.has_relative_path() && !is_folder(folder.string())) folder = folder.parent_path();
  if (const int error = why_not_writable(folder.empty() ? "." : folder.string()); error != 0)
    throw system_error("cannot write to the model store,", folder.string(), error);
}

StoreLock& Store::lock_of_changes() const {
  require_writable();
  make_folders(folder_);
  return state_->lock;
}

void Store::check_readable() const {
  for (const std::string& folder : {folder_, manifests_folder(), blobs_folder()}) {
    const int error = why_not_listed(folder);
    if (error == 0 || error == ENOENT) continue;
    const Error why = system_error("cannot read the model store", folder, error);
    throw Error(why.code(), std::string(why.what()) +
                                "; give this user access to it, or set another folder with "
                                "--models or OLLAMA_MODELS");
  }
}

std::vector<Store::Leaf> Store::leaves(std::vector<std::string>* unreadable) const {
  std::vector<std::string> folders{manifests_folder()};
  std::vector<std::string> files;
  for (int depth = 0; depth < 4; ++depth) {
    std::vector<std::string> below;
    for (const std::string& folder : folders) {
      for (const Child& child : typed_children(folder, unreadable)) {
        if (child.is_folder && depth < 3) below.push_back(folder + "/" + child.name);
        if (!child.is_folder && depth == 3) files.push_back(folder + "/" + child.name);
      }
    }
    folders = std::move(below);
  }
  std::vector<Leaf> found;
  for (const std::string& file : files) {
    const fs::path path = file;
    const fs::path model = path.parent_path();
    const fs::path space = model.parent_path();
    Name name;
    name.host = space.parent_path().filename().string();
    name.space = space.filename().string();
    name.model = model.filename().string();
    name.tag = path.filename().string();
    const bool valid = is_valid(name);
    found.push_back({file, valid ? std::optional(std::move(name)) : std::nullopt});
  }
  return found;
}

std::optional<StoredModel> Store::read(const Name& name) const {
  const std::string path = path_of(name);
  const auto content = read_file(path, kMaxManifestBytes);
  if (!content) return std::nullopt;
  return StoredModel{.name = name,
                     .manifest = parse_manifest(content->bytes, path),
                     .digest = digest_of(content->bytes),
                     .modified = content->status.modified};
}

std::optional<std::string> Store::manifest_text(const Name& spelled) const {
  auto content = read_file(path_of(spelled), kMaxManifestBytes);
  if (!content) return std::nullopt;
  return std::move(content->bytes);
}

std::vector<Name> Store::names() const {
  std::vector<std::string> unreadable;
  std::vector<Name> names;
  for (Leaf& leaf : leaves(&unreadable)) {
    if (leaf.name)
      names.push_back(std::move(*leaf.name));
    else
      log::warn(leaf.path + ": not a model name; left out");
  }
  for (const std::string& folder : unreadable) {
    if (folder == manifests_folder())
      throw Error(ErrorCode::kIo, "cannot read the model store: " + folder + ": " +
                                      std::strerror(why_not_listed(folder)));
    log::warn(folder + " cannot be read; its models are left out");
  }
  return names;
}

bool is_newer(const StoredModel& a, const StoredModel& b) {
  if (a.modified != b.modified) return a.modified > b.modified;
  return full_name(a.name) < full_name(b.name);
}

std::vector<StoredModel> Store::list() const {
  std::vector<StoredModel> models;
  for (const Name& name : names()) {
    try {
      if (auto model = read(name)) models.push_back(std::move(*model));
    } catch (const Error& error) {
      log::warn(std::string(error.what()) + "; left out");
    }
  }
  std::ranges::sort(models, is_newer);
  return models;
}

Name Store::resolve(const Name& name) const {
  if (file_status(path_of(name))) return name;
  std::set<std::string> hosts, spaces, models, tags;
  for (const Leaf& leaf : leaves()) {
    if (!leaf.name) continue;
    if (same_model(*leaf.name, name)) {
      Name stored = *leaf.name;
      stored.scheme = name.scheme;
      return stored;
    }
    hosts.insert(leaf.name->host);
    spaces.insert(leaf.name->space);
    models.insert(leaf.name->model);
    tags.insert(leaf.name->tag);
  }
  Name spelled = name;
  spell_as_stored(spelled.host, hosts);
  spell_as_stored(spelled.space, spaces);
  spell_as_stored(spelled.model, models);
  spell_as_stored(spelled.tag, tags);
  return spelled;
}

std::optional<StoredModel> Store::find(const Name& name) const { return read(resolve(name)); }

void Store::make_folders(const std::string& folder) const {
  if (folder.empty() || is_folder(folder)) return;
  make_folders(parent_of(folder));
  begin("make folder");
  make_folder(folder);
}

void Store::write_manifest(const Name& name, std::string_view bytes) const {
  const std::string path = path_of(name);
  try {
    make_folders(parent_of(path));
    // The file is staged in the folder of manifests, because the folder of blobs may be on another
    // file system. Next to its final path, other programs would take it for a model.
    gguf::AtomicFile file(
        path, {.staging_folder = manifests_folder(), .before_step = options_.before_step});
    file.write(std::as_bytes(std::span(bytes)));
    file.commit();
  } catch (...) {
    discard_empty_folders(parent_of(path), manifests_folder());
    throw;
  }
}

std::vector<Digest> Store::digests_of(const Name& name) const {
  try {
    if (const auto model = read(name)) return model->manifest.digests();
  } catch (const Error& error) {
    log::warn(error.what());
  }
  return {};
}

Name Store::put(const Name& name, const Manifest& manifest) {
  return put_text(name, to_text(manifest));
}

Name Store::put_text(const Name& name, std::string_view manifest_text) {
  const Manifest manifest = parse_manifest(manifest_text, "the manifest of " + display_name(name));
  const StoreLock::Change change(lock_of_changes());
  for (const Digest& digest : manifest.digests()) {
    if (!has_blob(digest)) {
      throw Error(ErrorCode::kNotFound, "cannot write the manifest of " + display_name(name) +
                                            ": blob " + digest.text() + " does not exist");
    }
  }
  const Name spelled = resolve(name);
  const std::vector<Digest> old = digests_of(spelled);
  write_manifest(spelled, manifest_text);
  remove_unreferenced(old);
  return spelled;
}

bool Store::copy(const Name& source, const Name& destination) {
  if (!read(resolve(source))) return false;
  const StoreLock::Change change(lock_of_changes());
  const Name from = resolve(source);
  const Name to = resolve(destination);
  const auto content = read_file(path_of(from), kMaxManifestBytes);
  if (!content) return false;
  parse_manifest(content->bytes,
                 path_of(from));  // throws if the manifest is broken, so that it is not copied
  if (from == to) return true;
  const std::vector<Digest> old = digests_of(to);
  write_manifest(to, content->bytes);
  remove_unreferenced(old);
  return true;
}

void Store::remove_file(std::string_view step, const std::string& path) const {
  begin(step);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw system_error("cannot remove", path, errno);
  }
}

void Store::remove_empty_folders(std::string folder) const {
  for (; folder != manifests_folder(); folder = parent_of(folder)) {
    begin("remove folder");
    if (::rmdir(folder.c_str()) != 0) return;  // not empty
  }
}

bool Store::remove(const Name& name) {
  if (!file_status(path_of(resolve(name)))) return false;
  const StoreLock::Change change(lock_of_changes());
  const Name spelled = resolve(name);
  const std::string path = path_of(spelled);
  if (!file_status(path)) return false;
  const std::vector<Digest> old = digests_of(spelled);
  remove_file("remove manifest", path);
  flush_folder(parent_of(path));  // before its blobs are removed
  remove_empty_folders(parent_of(path));
  remove_unreferenced(old);
  return true;
}

std::optional<std::vector<Digest>> Store::referenced() const {
  std::vector<Digest> all;
  std::vector<std::string> unreadable;
  for (const Leaf& leaf : leaves(&unreadable)) {
    try {
      const auto content = read_file(leaf.path, kMaxManifestBytes);
      if (!content) continue;
      for (const Digest& digest : parse_manifest(content->bytes, leaf.path).digests()) {
        all.push_back(digest);
      }
    } catch (const Error& error) {
      if (!leaf.name) continue;  // not a model, by name and by content
      log::warn(std::string(error.what()) + "; no blobs are removed until this is fixed");
      return std::nullopt;
    }
  }
  if (!unreadable.empty()) {
    log::warn(unreadable.front() + " cannot be read; no blobs are removed until this is fixed");
    return std::nullopt;
  }
  std::ranges::sort(all);
  return all;
}

bool Store::remove_unheld(const Digest& digest) const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->held.contains(digest)) return false;
  remove_file("remove blob", blob_path(digest));
  return true;
}

void Store::remove_unreferenced(const std::vector<Digest>& candidates) const {
  if (candidates.empty()) return;
  const StoreLock::Removal removal(state_->lock);
  if (!removal) {
    log::info("another server creates a model: unused blobs stay until the next cleanup");
    return;
  }
  const auto kept = referenced();
  if (!kept) return;
  for (const Digest& digest : candidates) {
    if (!std::ranges::binary_search(*kept, digest)) remove_unheld(digest);
  }
}

void Store::remove_unused(const std::vector<Digest>& blobs) {
  try {
    const StoreLock::Change change(lock_of_changes());
    remove_unreferenced(blobs);
  } catch (const Error& error) {
    log::warn(std::string("cannot remove unused blobs: ") + error.what());
  }
}

std::string Store::blob_path(const Digest& digest) const {
  std::string path = blobs_folder() + "/" + digest.file_name();
  if (!file_status(path)) {
    std::string old_path = blobs_folder() + "/" + old_file_name(digest);
    if (file_status(old_path)) return old_path;
  }
  return path;
}

std::string Store::made_blobs_folder() {
  require_writable();
  make_folders(blobs_folder());
  return blobs_folder();
}

bool Store::has_blob(const Digest& digest) const {
  return file_status(blob_path(digest)).has_value();
}

bool Store::has_blob(const Digest& digest, uint64_t n_bytes) const {
  const auto status = file_status(blob_path(digest));
  return status && status->size_bytes == n_bytes;
}

bool Store::has_whole_blob(const Digest& digest) const {
  const auto status = file_status(blob_path(digest));
  if (!status) return false;
  const auto differs = [&](const Layer& layer) {
    return layer.digest == digest && layer.size_bytes != 0 &&
           layer.size_bytes != status->size_bytes;
  };
  return std::ranges::none_of(list(), [&](const StoredModel& model) {
    return differs(model.manifest.config) || std::ranges::any_of(model.manifest.layers, differs);
  });
}

std::string Store::read_blob(const Digest& digest, uint64_t max_bytes) const {
  auto content = read_file(blob_path(digest), max_bytes);
  if (!content) throw Error(ErrorCode::kNotFound, "blob " + digest.text() + " does not exist");
  return std::move(content->bytes);
}

bool Store::add_blob(const Digest& digest, const ByteSource& source,
                     std::optional<uint64_t> n_bytes) {
  if (n_bytes ? has_blob(digest, *n_bytes) : has_blob(digest)) {
    // The caller will use the blob soon. A new timestamp protects it from a cleanup of unused
    // blobs.
    ::utimensat(AT_FDCWD, blob_path(digest).c_str(), nullptr, 0);
    return false;
  }
  require_writable();
  make_folders(blobs_folder());
  gguf::AtomicFile file(blobs_folder() + "/" + digest.file_name(),
                        {.staging_folder = blobs_folder(), .before_step = options_.before_step});
  Hasher hasher;
  std::vector<std::byte> part(kPartBytes);
  while (const size_t n = source(part)) {
    BILLOW_CHECK(n <= part.size());
    const auto bytes = std::span(part).first(n);
    hasher.update(bytes);
    file.write(bytes);
  }
  const Digest found = hasher.finish();
  if (found != digest) {
    throw Error(ErrorCode::kInvalidInput, "digest mismatch, expected \"" + digest.text() +
                                              "\", got \"" + found.text() + "\"");
  }
  file.commit();
  return true;
}

Layer Store::add_layer(std::string_view media_type, std::string_view bytes, bool* created) {
  const Digest digest = digest_of(bytes);
  std::span<const std::byte> left = std::as_bytes(std::span(bytes));
  const auto source = [&](std::span<std::byte> part) {
    const size_t n = std::min(part.size(), left.size());
    std::ranges::copy(left.first(n), part.begin());
    left = left.subspan(n);
    return n;
  };
  const bool added = add_blob(digest, source, bytes.size());
  if (created) *created = added;
  return {.media_type = std::string(media_type),
          .digest = digest,
          .size_bytes = bytes.size(),
          .from = "",
          .name = ""};
}

Layer Store::add_made_layer(std::string_view media_type,
                            const std::function<void(const ByteSink&)>& make, Hold& hold,
                            bool* created) {
  require_writable();
  make_folders(blobs_folder());
  gguf::AtomicFile file(blobs_folder() + "/made",
                        {.staging_folder = blobs_folder(), .before_step = options_.before_step});
  Hasher hasher;
  uint64_t n_bytes = 0;
  make([&](std::span<const std::byte> bytes) {
    hasher.update(bytes);
    file.write(bytes);
    n_bytes += bytes.size();
  });
  const Digest digest = hasher.finish();
  hold.add(digest);
  const bool is_new = !has_blob(digest, n_bytes);
  if (is_new) {
    file.set_path(blob_path(digest));
    file.commit();
  }
  if (created) *created = is_new;
  return {.media_type = std::string(media_type),
          .digest = digest,
          .size_bytes = n_bytes,
          .from = "",
          .name = ""};
}

Store::Hold::Hold(Store& store) : store_(store) { store_.lock_of_changes().begin_making(); }

Store::Hold::~Hold() {
  {
    const std::scoped_lock lock(store_.state_->mutex);
    for (const Digest& digest : digests_) {
      store_.state_->held.erase(store_.state_->held.find(digest));
    }
  }
  store_.state_->lock.end_making();
}

void Store::Hold::add(const Digest& digest) {
  digests_.reserve(digests_.size() + 1);
  const std::scoped_lock lock(store_.state_->mutex);
  store_.state_->held.insert(digest);
  digests_.push_back(digest);
}

bool Store::remove_unfinished(const std::string& path) const {
  if (!is_unfinished(fs::path(path).filename().string())) return false;
  const UnwrittenFile unwritten(path);
  if (!unwritten) return false;
  remove_file("remove partial", path);
  return true;
}

void Store::prune_blobs(Time newest, Pruned& pruned) const {
  const StoreLock::Removal removal(state_->lock);
  if (!removal)
    log::info("another server creates a model: unused blobs stay until the next cleanup");
  const auto kept = removal ? referenced() : std::nullopt;
  for (const std::string& file_name : children(blobs_folder())) {
    const std::string path = blobs_folder() + "/" + file_name;
    const auto status = entry_status(path);
    if (!status || status->modified > newest) continue;
    const auto digest = Digest::parse(file_name);
    const bool is_blob = digest && digest->file_name() == file_name;
    if (is_blob) {
      if (!kept || std::ranges::binary_search(*kept, *digest)) continue;
      if (!remove_unheld(*digest)) continue;
    } else {
      if (!remove_unfinished(path)) continue;
    }
    ++(is_blob ? pruned.n_blobs : pruned.n_partial);
    pruned.n_bytes += status->size_bytes;
  }
}

void Store::prune_downloads(Time newest, Pruned& pruned) const {
  for (const PartialDownload& download : partial_downloads(blobs_folder())) {
    const bool can_continue = download.has_bytes && !has_blob(download.digest);
    if (download.modified > (can_continue ? newest - kMaxDownloadAge : newest)) continue;
    const UnwrittenFile unwritten(download.bytes_path);
    if (!unwritten) continue;
    for (const std::string& path : download.others) remove_file("remove partial", path);
    remove_file("remove partial", download.bytes_path);
    ++pruned.n_downloads;
    pruned.n_bytes += download.n_bytes;
  }
}

void Store::prune_staged_manifests(Time newest, Pruned& pruned) const {
  if (why_not_writable(manifests_folder()) != 0) return;
  for (const std::string& file_name : children(manifests_folder())) {
    const std::string path = manifests_folder() + "/" + file_name;
    const auto status = entry_status(path);
    if (!status || status->modified > newest || !remove_unfinished(path)) continue;
    ++pruned.n_partial;
    pruned.n_bytes += status->size_bytes;
  }
}

void Store::prune_folders(const std::string& folder, int depth) const {
  for (const std::string& child : children(folder)) {
    const std::string path = fs::path(folder) / child;
    if (entry_status(path) || !is_folder(path)) continue;
    if (depth > 1) prune_folders(path, depth - 1);
    if (children(path).empty()) remove_empty_folders(path);
  }
}

Pruned Store::prune(std::chrono::seconds min_age) {
  Pruned pruned;
  if (!is_folder(blobs_folder())) return pruned;
  if (why_not_writable(blobs_folder()) != 0) {
    log::warn(blobs_folder() + " is not writable: unused files stay");
    return pruned;
  }
  const StoreLock::Change change(lock_of_changes());
  for (const std::string& file_name : children(blobs_folder())) {
    const auto digest = Digest::parse(file_name);
    if (!digest || file_name != old_file_name(*digest)) continue;
    const fs::path blobs = blobs_folder();
    const std::string path = blobs / digest->file_name();
    if (file_status(path)) continue;
    begin("rename blob");
    if (::rename((blobs / file_name).c_str(), path.c_str()) != 0) {
      throw system_error("cannot rename a blob to", path, errno);
    }
  }
  const Time newest =
      std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now() - min_age);
  prune_blobs(newest, pruned);
  prune_downloads(newest, pruned);
  prune_staged_manifests(newest, pruned);
  prune_folders(manifests_folder(), 3);
  return pruned;
}

}  // namespace billow::store
