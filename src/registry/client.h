// Pulls models from registries into a store, and pushes models from the store. A pulled model
// appears in the store once all its blobs are stored and each blob has matched its digest. After a
// failed pull, the fetched bytes stay for the next pull. Parallel pulls of one blob share its
// download. Thread-safe. The store must outlive the client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "registry/download.h"
#include "registry/flights.h"
#include "registry/session.h"
#include "registry/transport.h"
#include "registry/upload.h"
#include "registry/web_file.h"
#include "store/manifest.h"
#include "store/store.h"

namespace billow::registry {

struct ClientOptions {
  TransportOptions transport{};
  // The file of the user's key. The key is created when the first registry asks for it. Empty: no
  // key.
  std::string key_path{};
  // Docker's file of logins, which may be missing. Empty: no logins.
  std::string docker_config{};
  // The address "http://HOST:PORT" or "https://HOST" that replaces the default registry. Empty: the
  // default registry.
  std::string mirror{};
  DownloadOptions download{};
  UploadOptions upload{};
  WebFileOptions web_file{};
  std::chrono::milliseconds report_interval{60};
};

// A step of a pull or push. `status` has Ollama's wording.
struct Step {
  std::string status;
  const store::Layer* layer = nullptr;  // the layer in transfer
  uint64_t n_completed = 0;             // transferred bytes of the layer
};
// Receives each step. If it throws, the transfer ends.
using Listener = std::function<void(const Step&)>;

class Client {
 public:
  Client(store::Store& store, ClientOptions options);
  // REQUIRES: no call is running.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Throws Error (kPermissionDenied) if this user cannot write to the store.
  void check_writable() const { store_.require_writable(); }

  // Fetches the missing blobs of a model and stores the model under `name`. If the store already
  // has the model, the registry gets the stored spelling of the name. Returns the spelling in the
  // store. `insecure`: uses http.
  // A stored blob whose size and digest are wrong is fetched again. Throws Error: kNotFound "pull
  // model manifest: file does not exist"; kIo before any download if the disk lacks space;
  // kInvalidInput if the model's config or weights are not usable; the errors of download(); kIo
  // once `stop` is set. After an error, a model that the store has stays unchanged, and the error
  // text reports that.
  store::Name pull(const store::Name& name, bool insecure, const Listener& listener,
                   std::stop_token stop = {});

  // Fetches a GGUF file from a web address; see fetch_web_file(). `sink` receives the bytes on
  // another thread. `progress` receives the number of fetched bytes and the total (0: unknown) on
  // the caller's thread. Throws Error: kInvalidInput if the bytes are not a GGUF file, kIo if the
  // store's disk lacks space, and the errors of fetch_web_file().
  void fetch_file(const std::string& url, const store::ByteSink& sink,
                  const std::function<void(uint64_t n_done, uint64_t n_total)>& progress,
                  std::stop_token stop = {});

  // Sends the blobs that the registry lacks, then the manifest under `name`. Throws Error:
  // kNotFound if the store has no such model; the errors of upload().
  void push(const store::Name& name, bool insecure, const Listener& listener,
            std::stop_token stop = {});

 private:
  class Window;

  std::shared_ptr<Session> session(const store::Name& name, bool insecure);
  // Returns whether the store has the blob in the size that the manifest gives; 0: in any size.
  bool is_stored(const store::Layer& layer) const;
  // Throws Error if the model's config cannot be read. REQUIRES: it is stored.
  void check_config(const store::Name& name, const store::Manifest& manifest) const;
  // Throws Error if the model's weights are not GGUF files. REQUIRES: they are stored.
  void check_weights(const store::Name& name, const store::Manifest& manifest) const;
  // Returns whether the store has the model and all its blobs.
  bool has_whole(const store::Name& name) const;
  store::Name update(const store::Name& name, bool insecure, const Listener& listener,
                     const std::stop_token& stop);
  void check_room(const std::vector<store::Layer>& layers, const std::string& folder) const;
  static void check_room(uint64_t n_wanted, const std::string& folder);
  void fetch(const std::shared_ptr<Session>& session, const std::string& folder,
             const std::vector<store::Layer>& layers, const Listener& listener,
             const std::stop_token& stop);
  // Fetches the blobs of a manifest, and checks the config as soon as it is stored.
  void fetch_all(const std::shared_ptr<Session>& session, const store::Name& name,
                 const store::Manifest& manifest, const Listener& listener,
                 const std::stop_token& stop);
  // Sends one blob if the registry lacks it.
  void send(const std::shared_ptr<Session>& session, const store::Name& name,
            const store::Layer& layer, const Listener& listener, const std::stop_token& stop);

  store::Store& store_;
  const ClientOptions options_;
  std::once_flag transport_made_;
  std::unique_ptr<Transport> transport_;  // created by the first call
  Flights flights_;
};

}  // namespace billow::registry
