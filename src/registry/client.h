// Pulls models from registries into a store, and pushes them from there. A model is in the store
// once all its blobs are, each checked by its digest; what a pull that failed has fetched stays for
// the next one. Pulls of one blob share its download. Any thread; the store outlives the client.
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
#include "store/store.h"

namespace billow::registry {

struct ClientOptions {
  TransportOptions transport{};
  // The user's key, which is made when the first registry asks for one; empty: there is none.
  std::string key_path{};
  // Docker's file of logins, which need not be there; empty: none is read.
  std::string docker_config{};
  // The address "http://HOST:PORT" or "https://HOST" that is asked for models of the default
  // registry; empty: that registry.
  std::string mirror{};
  DownloadOptions download{};
  UploadOptions upload{};
  WebFileOptions web_file{};
  std::chrono::milliseconds report_interval{60};
};

// A step of a pull or push, in Ollama's words.
struct Step {
  std::string status;
  const store::Layer* layer = nullptr;  // that is transferred
  uint64_t n_completed = 0;             // bytes of it
};
// What a listener throws ends the transfer.
using Listener = std::function<void(const Step&)>;

class Client {
 public:
  Client(store::Store& store, ClientOptions options);
  // REQUIRES: no call runs.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Fetches what the store lacks of a model, and gives it the name. Returns the name as spelled in
  // the store, under which a registry is asked for a model that is there. `insecure`: by http.
  // Throws Error: kNotFound "pull model manifest: file does not exist"; kTooLarge where the disk
  // has no room, before anything is fetched; what download() throws; kIo once `stop` is set. A
  // model of the store then stays as it is, and the error says so.
  store::Name pull(const store::Name& name, bool insecure, const Listener& listener,
                   std::stop_token stop = {});

  // Fetches the GGUF file at an address of the web: see fetch_web_file(). `sink` takes the bytes on
  // another thread, `progress` how many there are of all (0: unknown) on this one. Throws Error:
  // kInvalidInput where the bytes are no GGUF file, kTooLarge where the disk of the store has no
  // room for them, and what fetch_web_file() throws.
  void fetch_file(const std::string& url, const store::ByteSink& sink,
                  const std::function<void(uint64_t n_done, uint64_t n_total)>& progress,
                  std::stop_token stop = {});

  // Sends what the registry lacks of a model of the store, and gives it the name there. Throws
  // Error: kNotFound where the store has no such model; what upload() throws.
  void push(const store::Name& name, bool insecure, const Listener& listener,
            std::stop_token stop = {});

 private:
  class Window;

  std::shared_ptr<Session> session(const store::Name& name, bool insecure);
  // Whether the store has the model and all its blobs.
  bool has_whole(const store::Name& name) const;
  store::Name update(const store::Name& name, bool insecure, const Listener& listener,
                     const std::stop_token& stop);
  void check_room(const std::vector<store::Layer>& layers, const std::string& folder) const;
  static void check_room(uint64_t n_wanted, const std::string& folder);
  void fetch(const std::shared_ptr<Session>& session, const std::string& folder,
             const std::vector<store::Layer>& layers, const Listener& listener,
             const std::stop_token& stop);
  // Sends one blob that the registry lacks.
  void send(const std::shared_ptr<Session>& session, const store::Name& name,
            const store::Layer& layer, const Listener& listener, const std::stop_token& stop);

  store::Store& store_;
  const ClientOptions options_;
  std::once_flag transport_made_;
  std::unique_ptr<Transport> transport_;  // made by the first call
  Flights flights_;
};

}  // namespace billow::registry
