#include "registry/client.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <set>
#include <span>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "base/saturating.h"
#include "registry/docker_login.h"
#include "store/folder.h"
#include "store/gguf_facts.h"
#include "store/partial_download.h"

namespace billow::registry {
namespace {

// Max number of blobs that are fetched in parallel. Small blobs arrive while a large one starts.
constexpr size_t kMaxFlights = 4;

constexpr std::string_view kImageTypes = "application/vnd.ollama.image.";
constexpr std::string_view kTensorLayer = "application/vnd.ollama.image.tensor";

// Returns the layers and the config, each blob once.
std::vector<store::Layer> blobs_of(const store::Manifest& manifest) {
  std::vector<store::Layer> blobs;
  std::set<store::Digest> seen;
  for (const store::Layer& layer : manifest.layers)
    if (seen.insert(layer.digest).second) blobs.push_back(layer);
  if (seen.insert(manifest.config.digest).second) blobs.push_back(manifest.config);
  return blobs;
}

std::string short_digest(const store::Layer& layer) { return layer.digest.hex().substr(0, 12); }

// Returns the bytes of an unfinished download that are on the disk.
uint64_t begun_bytes(const std::string& folder, const store::Layer& layer) {
  const std::string path =
      folder + "/" + layer.digest.file_name() + std::string(store::kPartialSuffix);
  const auto status = store::file_status(path);
  return status ? std::min(status->disk_bytes, layer.size_bytes) : 0;
}

std::string fetched_manifest(Session& session, const std::string& tag,
                             const std::stop_token& stop) {
  Request request{.url = "/manifests/" + tag};
  request.headers.set("Accept", std::string(store::kManifestType));
  request.max_body_bytes = store::kMaxManifestBytes;
  Reply reply = session.follow(std::move(request), stop);
  if (reply.status == 404)
    throw Error(ErrorCode::kNotFound, "pull model manifest: file does not exist");
  if (reply.status != 200) throw Error(ErrorCode::kIo, "pull model manifest: " + error_text(reply));
  return std::move(reply.body);
}

void check_kind(const store::Manifest& manifest) {
  if (manifest.config.size_bytes > store::kMaxConfigBytes)
    throw Error(ErrorCode::kInvalidInput, "pull model manifest: its config has more than " +
                                              std::to_string(store::kMaxConfigBytes) + " bytes");
  const auto is_tensor = [](const store::Layer& layer) { return layer.media_type == kTensorLayer; };
  if (std::ranges::any_of(manifest.layers, is_tensor))
    throw Error(ErrorCode::kUnsupported,
                "this model requires MLX support, but the MLX runtime is not available: pull one "
                "that has a GGUF file");
  const auto is_of_model = [](const store::Layer& layer) {
    return layer.media_type.starts_with(kImageTypes);
  };
  if (!manifest.layers.empty() && std::ranges::none_of(manifest.layers, is_of_model))
    throw Error(ErrorCode::kUnsupported,
                "pull model manifest: this is a container image, not a model: it has no layer of a "
                "type " +
                    std::string(kImageTypes) + "*");
}

// Removes a stored blob whose size and digest are wrong, so that it can be fetched again. If only
// its size differs, the manifest is wrong and the blob stays. Hashes the file only if its size
// differs.
void discard_if_damaged(const std::string& path, const store::Layer& layer,
                        const std::stop_token& stop) {
  const auto status = store::file_status(path);
  if (!status || layer.size_bytes == 0 || status->size_bytes == layer.size_bytes) return;
  const auto check_stop = [&](uint64_t, uint64_t) {
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the download was cancelled");
  };
  if (store::digest_of_file(path, check_stop) == layer.digest) return;
  log::warn(path + ": the file is damaged and is fetched again");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw system_error("cannot remove", path, errno);
}

// Returns the repository of the same registry that a layer came from, or "".
std::string source_of(const store::Layer& layer, const store::Name& name) {
  const auto from = store::parse_name(layer.from);
  if (!from || from->host != name.host) return "";
  const std::string source = from->space + "/" + from->model;
  return source == name.space + "/" + name.model ? "" : source;
}

}  // namespace

Client::Client(store::Store& store, ClientOptions options)
    : store_(store), options_(std::move(options)) {}

Client::~Client() = default;

std::shared_ptr<Session> Client::session(const store::Name& name, bool insecure) {
  std::call_once(transport_made_,
                 [this] { transport_ = std::make_unique<Transport>(options_.transport); });
  const auto key = [this] {
    if (options_.key_path.empty())
      throw Error(ErrorCode::kPermissionDenied,
                  "the registry asks for a key, but HOME is not set, so its file is unknown");
    return IdentityKey::load_or_make(options_.key_path);
  };
  const std::string mirror = name.host == store::kDefaultHost ? options_.mirror : std::string();
  const std::string host = mirror.empty() ? name.host : mirror.substr(mirror.find("://") + 3);
  const auto login = [this, host] {
    const auto file = options_.docker_config.empty()
                          ? std::nullopt
                          : store::read_file(options_.docker_config, kMaxDockerConfigBytes);
    return file ? docker_login(file->bytes, host) : std::string();
  };
  return std::make_shared<Session>(
      *transport_, name,
      SessionOptions{.insecure = insecure, .key = key, .login = login, .mirror = mirror});
}

void Client::check_room(const std::vector<store::Layer>& layers, const std::string& folder) const {
  uint64_t n_wanted = 0;
  for (const store::Layer& layer : layers)
    if (!is_stored(layer))
      n_wanted = saturating_add(n_wanted, layer.size_bytes - begun_bytes(folder, layer));
  check_room(n_wanted, folder);
}

void Client::check_room(uint64_t n_wanted, const std::string& folder) {
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  const uint64_t n_free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (n_wanted > n_free)
    throw Error(ErrorCode::kIo, folder + ": " + format_byte_size(n_wanted) +
                                    " are needed, but the disk has " + format_byte_size(n_free) +
                                    " left");
}

bool Client::is_stored(const store::Layer& layer) const {
  return layer.size_bytes == 0 ? store_.has_blob(layer.digest)
                               : store_.has_blob(layer.digest, layer.size_bytes);
}

void Client::check_config(const store::Name& name, const store::Manifest& manifest) const {
  static_cast<void>(
      store::parse_config(store_.read_blob(manifest.config.digest, store::kMaxConfigBytes),
                          "the config of " + store::full_name(name)));
}

void Client::check_weights(const store::Name& name, const store::Manifest& manifest) const {
  for (const store::Layer& layer : manifest.layers) {
    if (layer.media_type != store::kModelLayer) continue;
    if (!store::begins_as_gguf(store_.blob_path(layer.digest)))
      throw Error(ErrorCode::kInvalidInput, "the weights of " + store::full_name(name) +
                                                " are not a GGUF file: " + layer.digest.text());
  }
}

bool Client::has_whole(const store::Name& name) const {
  try {
    const auto stored = store_.find(name);
    return stored &&
           std::ranges::all_of(blobs_of(stored->manifest),
                               [&](const store::Layer& layer) { return is_stored(layer); });
  } catch (const Error&) {  // a broken manifest counts as a missing model
    return false;
  }
}

// Runs the downloads of the next layers while the current one is reported. The download of the last
// layer begins first: it is the config, which is small and is checked before large layers arrive.
class Client::Window {
 public:
  Window(Client& client, std::shared_ptr<Session> session, std::string folder,
         const std::vector<store::Layer>& layers)
      : client_(client),
        session_(std::move(session)),
        folder_(std::move(folder)),
        layers_(layers),
        seats_(layers.size()) {
    begin(layers_.size() - 1);
  }

  // Starts the downloads of layer i and of the layers after it. Returns the download of layer i;
  // null if its blob is stored.
  Flights::Seat* at(size_t i) {
    for (; next_ + 1 < layers_.size() && next_ < i + kMaxFlights; ++next_) begin(next_);
    return seats_[i] ? &*seats_[i] : nullptr;
  }
  void leave(size_t i) { seats_[i].reset(); }
  void restart(size_t i) {
    seats_[i].reset();
    seats_[i].emplace(join(layers_[i]));
  }
  // Throws Error if the download of the last layer has failed.
  void check_last() {
    std::optional<Flights::Seat>& seat = seats_.back();
    if (seat && !seat->has_joined() && seat->wait(std::chrono::milliseconds(0))) seat->check();
  }

 private:
  void begin(size_t i) {
    if (!client_.is_stored(layers_[i])) seats_[i].emplace(join(layers_[i]));
  }
  Flights::Seat join(const store::Layer& layer) {
    // The participant that started the download may leave before others, so the download owns a
    // session.
    return client_.flights_.join(
        layer.digest, [options = client_.options_.download, session = session_, folder = folder_,
                       layer, path = client_.store_.blob_path(layer.digest)](
                          const Flights::Report& report, const std::stop_token& stop) mutable {
          options.on_progress = report;
          discard_if_damaged(path, layer, stop);
          download(*session, folder, layer.digest, layer.size_bytes, options, stop);
        });
  }

  Client& client_;
  const std::shared_ptr<Session> session_;
  const std::string folder_;
  const std::vector<store::Layer>& layers_;
  size_t next_ = 0;
  std::vector<std::optional<Flights::Seat>> seats_;  // of each layer; empty: its blob is stored
};

void Client::fetch(const std::shared_ptr<Session>& session, const std::string& folder,
                   const std::vector<store::Layer>& layers, const Listener& listener,
                   const std::stop_token& stop) {
  Window window(*this, session, folder, layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    const store::Layer& layer = layers[i];
    const auto report = [&](uint64_t n_completed) {
      if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the download was cancelled");
      listener({.status = "pulling " + short_digest(layer),
                .layer = &layer,
                .n_completed = n_completed});
    };
    while (Flights::Seat* seat = window.at(i)) {
      while (!seat->wait(options_.report_interval)) {
        window.check_last();
        report(seat->n_completed());
      }
      if (!seat->has_joined()) {
        seat->check();
        break;
      }
      // Another participant's download may have failed for its own reasons, such as its token or
      // host.
      if (is_stored(layer)) break;
      window.restart(i);
    }
    report(layer.size_bytes);
    window.leave(i);
  }
}

void Client::fetch_all(const std::shared_ptr<Session>& session, const store::Name& name,
                       const store::Manifest& manifest, const Listener& listener,
                       const std::stop_token& stop) {
  const std::vector<store::Layer> layers = blobs_of(manifest);
  const std::string folder = store_.made_blobs_folder();
  check_room(layers, folder);
  bool is_checked = false;
  const auto check_and_report = [&](const Step& step) {
    if (!is_checked && is_stored(manifest.config)) {
      check_config(name, manifest);
      is_checked = true;
    }
    listener(step);
  };
  fetch(session, folder, layers, check_and_report, stop);
  if (!is_checked) check_config(name, manifest);
  check_weights(name, manifest);
}

void Client::send(const std::shared_ptr<Session>& session, const store::Name& name,
                  const store::Layer& layer, const Listener& listener,
                  const std::stop_token& stop) {
  const auto report = [&](uint64_t n_completed) {
    if (stop.stop_requested()) throw Error(ErrorCode::kIo, "the upload was cancelled");
    listener(
        {.status = "pushing " + short_digest(layer), .layer = &layer, .n_completed = n_completed});
  };
  if (!has_blob(*session, layer.digest, stop)) {
    Flights alone;  // no other push sends to this repository
    Flights::Seat seat = alone.join(
        layer.digest, [&, options = options_.upload](const Flights::Report& sent,
                                                     const std::stop_token& token) mutable {
          options.on_progress = sent;
          upload(*session, store_.blob_path(layer.digest), layer.digest, source_of(layer, name),
                 options, token);
        });
    while (!seat.wait(options_.report_interval)) report(seat.n_completed());
    seat.check();
  }
  report(layer.size_bytes);
}

store::Name Client::pull(const store::Name& name, bool insecure, const Listener& listener,
                         std::stop_token stop) {
  try {
    return update(name, insecure, listener, stop);
  } catch (const Error& error) {
    if (stop.stop_requested() || !has_whole(name)) throw;
    throw Error(error.code(), std::string(error.what()) + "; the model of the store was kept");
  }
}

store::Name Client::update(const store::Name& name, bool insecure, const Listener& listener,
                           const std::stop_token& stop) {
  // If the store has the model, the request uses its stored spelling.
  const store::Name stored = store_.resolve(name);
  const store::Name& asked = store_.manifest_text(stored) ? stored : name;
  const auto session = this->session(asked, insecure);
  listener({.status = "pulling manifest"});
  const std::string text = fetched_manifest(*session, asked.tag, stop);
  const store::Manifest manifest =
      store::parse_manifest(text, "pull model manifest: " + store::full_name(name));
  check_kind(manifest);
  store::Store::Hold hold(store_);
  for (const store::Layer& layer : blobs_of(manifest)) hold.add(layer.digest);
  fetch_all(session, name, manifest, listener, stop);
  listener({.status = "verifying sha256 digest"});
  listener({.status = "writing manifest"});
  const store::Name spelled = store_.put_text(name, text);
  listener({.status = "success"});
  return spelled;
}

void Client::fetch_file(const std::string& url, const store::ByteSink& sink,
                        const std::function<void(uint64_t n_done, uint64_t n_total)>& progress,
                        std::stop_token stop) {
  constexpr std::string_view kMagic = "GGUF";
  const std::string folder = store_.made_blobs_folder();
  std::atomic<uint64_t> n_done{0};
  std::atomic<uint64_t> n_total{0};
  std::string magic;
  const WebFileSink checked{
      .begin =
          [&](std::optional<uint64_t> n_bytes) {
            if (n_bytes) check_room(*n_bytes, folder);
            n_total = n_bytes.value_or(0);
          },
      .write =
          [&](std::span<const std::byte> bytes) {
            if (magic.size() < kMagic.size()) {
              const size_t n = std::min(kMagic.size() - magic.size(), bytes.size());
              magic.append(reinterpret_cast<const char*>(bytes.data()), n);
              if (!kMagic.starts_with(magic))
                throw Error(ErrorCode::kInvalidInput, url + ": this is not a GGUF file");
            }
            sink(bytes);
            n_done += bytes.size();
          }};
  std::stop_source cancel;
  const std::stop_callback forward(stop, [&] { cancel.request_stop(); });
  std::future<void> work = std::async(std::launch::async, [&] {
    Transport transport(
        options_.transport);  // a separate Transport, because its thread writes to the disk
    fetch_web_file(transport, url, checked, options_.web_file, cancel.get_token());
  });
  try {
    while (work.wait_for(options_.report_interval) != std::future_status::ready)
      progress(n_done, n_total);
  } catch (...) {
    cancel.request_stop();
    work.wait();
    throw;
  }
  work.get();
  if (magic.size() < kMagic.size())
    throw Error(ErrorCode::kInvalidInput, url + ": this is not a GGUF file");
  progress(n_done, n_done);
}

void Client::push(const store::Name& name, bool insecure, const Listener& listener,
                  std::stop_token stop) {
  const auto session = this->session(name, insecure);
  listener({.status = "retrieving manifest"});
  const store::Name spelled = store_.resolve(name);
  const std::optional<std::string> text = store_.manifest_text(spelled);
  if (!text) {
    listener({.status = "couldn't retrieve manifest"});
    throw Error(ErrorCode::kNotFound, "model '" + store::display_name(name) + "' not found");
  }
  const store::Manifest manifest = store::parse_manifest(*text, store::full_name(spelled));
  for (const store::Layer& layer : blobs_of(manifest)) send(session, name, layer, listener, stop);
  listener({.status = "pushing manifest"});
  Request request{.method = "PUT", .url = "/manifests/" + name.tag, .body = *text};
  request.headers.set("Content-Type", std::string(store::kManifestType));
  const Reply reply = session->follow(std::move(request), stop);
  if (reply.status < 200 || reply.status > 299)
    throw Error(ErrorCode::kIo, "push model manifest: " + error_text(reply));
  listener({.status = "success"});
}

}  // namespace billow::registry
