// Models on disk in Ollama's layout: blobs/sha256-<hex> and
// manifests/<host>/<namespace>/<model>/<tag>. A Store owns nothing but its idea of the folder: what
// is written appears whole or not at all, survives a crash, and is seen by other programs that
// share the folder. Servers that share one change it one after the other (store_lock.h); reading
// waits for nobody. Any thread may call anything.
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

// Fills the buffer and returns how many bytes it got; 0 is the end.
using ByteSource = std::function<size_t(std::span<std::byte>)>;

// Takes bytes, piece after piece.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// The order of listings: newest first, then by name.
bool is_newer(const StoredModel& a, const StoredModel& b);

struct StoreOptions {
  // Called before each step that changes something on the disk; what it throws ends the operation.
  // For tests of what a crash leaves.
  std::function<void(std::string_view step)> before_step;
};

struct Pruned {
  size_t n_blobs = 0;
  size_t n_partial = 0;  // files of writes that never ended
  uint64_t n_bytes = 0;
};

// All functions throw Error when the system fails; a folder that is not there is an empty store.
class Store {
 public:
  // Touches nothing: folders are made by the first write.
  explicit Store(std::string folder, StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const noexcept { return folder_; }

  // Throws Error that says what to do when there is a folder and this user cannot list it.
  void check_readable() const;

  // The names of all models, as spelled in the folder. Touches folders alone, no file of a model.
  // A folder that cannot be read is left out, with a line in the log; throws Error when that is
  // the folder of all manifests.
  std::vector<Name> names() const;
  // The model of a name that is spelled as in the folder; nullopt when there is none. Throws Error
  // that names the file when its manifest is broken.
  std::optional<StoredModel> read(const Name& spelled) const;
  // Every model, newest first. What cannot be read is left out, with a line in the log.
  std::vector<StoredModel> list() const;
  // The model that the name means, whatever its case; nullopt when there is none. Throws Error that
  // names the file when its manifest is broken.
  std::optional<StoredModel> find(const Name& name) const;
  // The name as it is spelled in the folder. Where there is no such model, each part is spelled as
  // in any model that has it.
  Name resolve(const Name& name) const;

  // Writes the manifest in the place of one that may be there, then removes the blobs that only
  // the old one referred to. Returns the name as spelled. REQUIRES: is_valid(name). Throws Error
  // (kNotFound) when a blob that it refers to is not there.
  Name put(const Name& name, const Manifest& manifest);
  // The same with the bytes of a manifest that came from elsewhere. Throws Error for what is none.
  Name put_text(const Name& name, std::string_view manifest_text);
  // The bytes of the manifest of a name that is spelled as in the folder; nullopt when there is
  // none.
  std::optional<std::string> manifest_text(const Name& spelled) const;
  // Gives a model a second name, of the same bytes; false when there is no such model.
  [[nodiscard]] bool copy(const Name& source, const Name& destination);
  // Removes a manifest, the folders that this empties, and the blobs that no other manifest refers
  // to; false when there is no such model.
  [[nodiscard]] bool remove(const Name& name);

  // Removes those of the blobs that no manifest refers to and nobody holds. What fails is a line in
  // the log.
  void remove_unused(const std::vector<Digest>& blobs);

  bool has_blob(const Digest& digest) const;
  // Where the blob lies or would lie.
  std::string blob_path(const Digest& digest) const;
  // The folder of blobs, which is made if need be: for those who write blobs by themselves.
  std::string made_blobs_folder();
  // The content of a small blob. Throws Error (kTooLarge) beyond `max_bytes`, kNotFound without it.
  std::string read_blob(const Digest& digest, uint64_t max_bytes = uint64_t{64} << 20) const;
  // Stores what the source gives; false when it was there already, and then nothing is read from
  // the source. Throws Error (kInvalidInput) with both digests when the bytes have another one.
  bool add_blob(const Digest& digest, const ByteSource& source);
  // Stores bytes as a layer. `created`, where given, is what add_blob returns.
  Layer add_layer(std::string_view media_type, std::string_view bytes, bool* created = nullptr);

  class Hold;
  // Stores what `make` hands to its sink, piece after piece, by the digest that it turns out to
  // have, and holds it. What `make` throws ends it, and nothing is left.
  Layer add_made_layer(std::string_view media_type,
                       const std::function<void(const ByteSink&)>& make, Hold& hold,
                       bool* created = nullptr);

  // Keeps blobs from being removed as unused while it lives: for those who write a manifest soon.
  class Hold {
   public:
    // Other servers remove no blob at all meanwhile. Throws Error when one has been at it for too
    // long.
    explicit Hold(Store& store);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    void add(const Digest& digest);

   private:
    Store& store_;
    std::vector<Digest> digests_;
  };

  // What is done at start: brings blobs of an old layout to their names, removes blobs that no
  // manifest refers to and our own unfinished files, both only when older than `min_age`, and empty
  // folders. Removes no blob while a manifest cannot be read or another server makes a model, and
  // no unfinished file that somebody still writes. Where the folder may not be written to, does
  // nothing but say so in the log. Partial downloads of other programs stay.
  Pruned prune(std::chrono::seconds min_age = std::chrono::hours(1));

 private:
  struct State;

  // A file where a manifest lies; the name is absent where it breaks the grammar.
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
  // From `folder` upwards, up to the folder of manifests.
  void remove_empty_folders(std::string folder) const;
  // `unreadable`, where given, gets the folders that cannot be read.
  std::vector<Leaf> leaves(std::vector<std::string>* unreadable = nullptr) const;
  // Throws Error when the store may not be written to.
  void require_writable() const;
  // The lock of all who change the store, whose folder is made for it.
  StoreLock& lock_of_changes() const;
  // The blobs of the manifest, or none when it is absent or broken.
  std::vector<Digest> digests_of(const Name& name) const;
  // The blobs of all manifests, sorted; nullopt when one cannot be read.
  std::optional<std::vector<Digest>> referenced() const;
  void remove_unreferenced(const std::vector<Digest>& candidates) const;
  // False when somebody needs it.
  bool remove_unheld(const Digest& digest) const;
  void prune_blobs(std::chrono::seconds min_age, Pruned& pruned) const;
  void prune_folders(const std::string& folder, int depth) const;

  std::string folder_;
  StoreOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace billow::store
