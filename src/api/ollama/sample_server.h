// For tests: a server with the routes of stored models, and a temporary store of small models. Not
// thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/ollama/errors.h"
#include "api/ollama/models.h"
#include "api/test_server.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "store/sample_gguf.h"
#include "store/sample_model.h"
#include "store/show.h"
#include "store/store.h"

namespace billow::api::ollama {

struct SampleServer {
  // Creates a model from a GGUF file. `fields` are added to the create request.
  void make(const std::string& name, Json fields = Json::object(),
            const gguf::Writer& writer = store::sample_gguf()) {
    const std::string digest = store::add_gguf(store, writer).text();
    Json request = {{"model", name}, {"files", {{"m.gguf", digest}}}, {"stream", false}};
    request.update(fields);
    const std::string answer = answer_text(server.post_json("/api/create", request));
    if (answer != R"(200 {"status":"success"})") throw std::runtime_error(answer);
  }

  // Returns the listed names in order, each followed by a blank.
  std::string names() {
    std::string names;
    const Json list = Json::parse(server.get("/api/tags").body);
    for (const Json& model : list["models"]) names += model["name"].get<std::string>() + " ";
    return names;
  }

  void touch(const std::string& manifest, std::chrono::hours later) {
    const std::filesystem::path path = store.folder() + "/manifests/" + manifest;
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + later);
  }

  TestFolder folder;
  store::Store store{folder.path()};
  // Requests to registries fail: nothing listens at the port "discard".
  registry::Client registry{store, {.mirror = "http://127.0.0.1:9"}};
  TestServer server{store_routes(store, registry), shape_error};
};

// Returns the lines of an NDJSON answer.
inline std::vector<Json> lines_of(const http::Response& response) {
  std::vector<Json> lines;
  size_t begin = 0;
  for (size_t end = 0; (end = response.body.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(Json::parse(response.body.substr(begin, end - begin)));
  }
  if (begin != response.body.size()) throw std::runtime_error("the last line has no end");
  return lines;
}

}  // namespace billow::api::ollama
