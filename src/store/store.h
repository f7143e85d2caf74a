// Models on disk in Ollama's layout: blobs/sha256-<hex> and
// manifests/<host>/<namespace>/<model>/<tag>. A Store keeps only the path of the folder. Every
// write is atomic, survives a crash, and is visible to other programs that share the folder.
// Servers that share a store change it one at a time (store_lock.h). Reading never waits.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/digest.h"
#include "store/folder.h"
#include "store/manifest.h"
#include "store/name.h"
#include "store/store_lock.h"

namespace billow::store {

struct StoredModel {
  Name name;  // as spelled in the folder
  Manifest manifest;
  Digest digest;  // of the manifest's bytes
  Time modified;
};

// Fills the buffer and returns the number of bytes; 0 at the end.
using ByteSource = std::function<size_t(std::span<std::byte>)>;

// Receives bytes in pieces.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// The sort order of listings: newest first, then by name.
bool is_newer(const StoredModel& a, const StoredModel& b);

struct StoreOptions {
  // Runs before each step that changes the disk. If it throws, the operation ends. Tests use it to
  // simulate crashes.
  std::function<void(std::string_view step)> before_step;
};

// A download can be continued for this long.
inline constexpr std::chrono::days kMaxDownloadAge{7};

struct Pruned {
  size_t n_blobs = 0;
  size_t n_partial = 0;  // files of unfinished writes
  size_t n_downloads = 0;
  uint64_t n_bytes = 0;
};

// All functions throw Error if the system fails. A missing folder is an empty store.
class Store {
 public:
  // Does not touch the disk: the first write creates the folders.
  explicit Store(std::string folder, StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const noexcept { return folder_; }

  // Throws Error with advice if the folder exists but this user cannot list it.
  void check_readable() const;
  // Throws Error (kPermissionDenied) if this user cannot write to the folder. Creates nothing.
  void require_writable() const;

  // Returns the names of all models, as spelled in the folder. Reads only folders, not files of
  // models. Leaves out and logs folders that cannot be read. Throws Error if the folder of all
  // manifests cannot be read.
  std::vector<Name> names() const;
  // Returns the model of a name that is spelled as in the folder; nullopt if it does not exist.
  // Throws Error that names the file if the manifest is broken.
  std::optional<StoredModel> read(const Name& spelled) const;
  // Returns every model, newest first. Leaves out and logs models that cannot be read.
  std::vector<StoredModel> list() const;
  // Returns the model of a name in any case; nullopt if it does not exist. Throws Error that names
  // the file if the manifest is broken.
  std::optional<StoredModel> find(const Name& name) const;
  // Returns the name as spelled in the folder. If the model does not exist, each part gets the
  // spelling that any stored model has for it.
  Name resolve(const Name& name) const;

  // Writes or replaces the manifest, then removes blobs that only the old manifest used. Returns
  // the name as spelled. REQUIRES: is_valid(name). Throws Error (kNotFound) if a referenced blob is
  // missing.
  Name put(const Name& name, const Manifest& manifest);
  // Like put(), with the bytes of a manifest from elsewhere. Throws Error if the text is not a
  // manifest.
  Name put_text(const Name& name, std::string_view manifest_text);
  // Returns the manifest's bytes for a name that is spelled as in the folder; nullopt if it does
  // not exist.
  std::optional<std::string> manifest_text(const Name& spelled) const;
  // Copies a model's manifest byte for byte to a second name. If that name had a model, removes
  // blobs that only this model used. Returns false if the source does not exist.
  [[nodiscard]] bool copy(const Name& source, const Name& destination);
  // Removes a manifest, folders that become empty, and blobs that no other manifest uses. Returns
  // false if the model does not exist.
  [[nodiscard]] bool remove(const Name& name);

  // Removes the given blobs that no manifest uses and no Hold keeps. Logs failures.
  void remove_unused(const std::vector<Digest>& blobs);

  bool has_blob(const Digest& digest) const;
  // Returns false also if the stored blob has another size: then the file is damaged.
  bool has_blob(const Digest& digest, uint64_t n_bytes) const;
  // Returns whether the blob exists and no manifest gives it another size. Reads all manifests.
  bool has_whole_blob(const Digest& digest) const;
  // Returns the path of the blob, whether it exists or not.
  std::string blob_path(const Digest& digest) const;
  // Returns the folder of blobs and creates it if needed, for callers that write blobs themselves.
  std::string made_blobs_folder();
  // Returns the content of a small blob. Throws Error: kTooLarge beyond `max_bytes`, kNotFound if
  // the blob is missing.
  std::string read_blob(const Digest& digest, uint64_t max_bytes = uint64_t{64} << 20) const;
  // Stores the bytes of `source` as a blob. If the blob already exists, returns false and does not
  // read the source. A blob of another size than `n_bytes`, if given, is replaced once all bytes
  // are read. Throws Error (kInvalidInput) with both digests if the bytes have another digest.
  bool add_blob(const Digest& digest, const ByteSource& source,
                std::optional<uint64_t> n_bytes = std::nullopt);
  // Stores bytes as a layer. `created`, if given, receives the result of add_blob().
  Layer add_layer(std::string_view media_type, std::string_view bytes, bool* created = nullptr);

  class Hold;
  // Stores the bytes that `make` writes to its sink, under their digest, and adds the digest to
  // `hold`. If `make` throws, no bytes are kept.
  Layer add_made_layer(std::string_view media_type,
                       const std::function<void(const ByteSink&)>& make, Hold& hold,
                       bool* created = nullptr);

  // Protects blobs from removal during its lifetime, until the caller has written a manifest that
  // uses them.
  class Hold {
   public:
    // Other servers remove no blobs during its lifetime. Throws Error if another server's removal
    // takes too long.
    explicit Hold(Store& store);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    void add(const Digest& digest);

   private:
    Store& store_;
    std::vector<Digest> digests_;
  };

  // Cleans the store at startup. Renames blobs of an old layout. Removes blobs that no manifest
  // uses and unfinished files of Billow, both only if older than `min_age`, and empty folders.
  // Removes downloads that nobody has continued for kMaxDownloadAge, or whose blob is stored.
  // Removes no blobs if a manifest cannot be read or another server creates a model. Keeps
  // unfinished files that still have a writer. If the folder is not writable, only logs that.
  Pruned prune(std::chrono::seconds min_age = std::chrono::hours(1));

 private:
  struct State;

  // A manifest file; the name is nullopt if it violates the grammar.
  struct Leaf {
    std::string path;
    std::optional<Name> name;
  };

  std::string manifests_folder() const { return folder_ + "/manifests"; }
  std::string blobs_folder() const { return folder_ + "/blobs"; }
  std::string path_of(const Name& name) const;
  void begin(std::string_view step) const;
  void make_folders(const std::string& folder) const;
  void write_manifest(const Name& name, std::string_view bytes) const;
  void remove_file(std::string_view step, const std::string& path) const;
  // Removes empty folders from `folder` upwards, up to the folder of manifests.
  void remove_empty_folders(std::string folder) const;
  // Returns all manifest files. `unreadable`, if given, receives the folders that cannot be read.
  std::vector<Leaf> leaves(std::vector<std::string>* unreadable = nullptr) const;
  // Returns the lock for changes of the store and creates the store's folder.
  StoreLock& lock_of_changes() const;
  // Returns the blobs of the manifest; empty if the manifest is missing or broken.
  std::vector<Digest> digests_of(const Name& name) const;
  // Returns the blobs of all manifests, sorted; nullopt if a manifest cannot be read.
  std::optional<std::vector<Digest>> referenced() const;
  void remove_unreferenced(const std::vector<Digest>& candidates) const;
  // Removes the blob unless a Hold keeps it. Returns false if the blob was kept.
  bool remove_unheld(const Digest& digest) const;
  // Removes the file if its name is that of an unfinished write and nobody writes it. Returns
  // whether it was removed.
  bool remove_unfinished(const std::string& path) const;
  void prune_blobs(Time newest, Pruned& pruned) const;
  // Removes downloads without bytes, or of stored blobs, that are not newer than `newest`, and all
  // that are older by kMaxDownloadAge.
  void prune_downloads(Time newest, Pruned& pruned) const;
  void prune_staged_manifests(Time newest, Pruned& pruned) const;
  void prune_folders(const std::string& folder, int depth) const;

  std::string folder_;
  StoreOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace billow::store
