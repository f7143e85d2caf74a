#include "cli/client/vector_recipe.h"

#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/show_text.h"
#include "store/digest.h"

namespace billow::cli {

std::string canonical_json(const VectorRecipe& recipe) {
  const Json json = {{"dimensions", recipe.dimensions},
                     {"normalize", recipe.normalise},
                     {"op", "embed"},
                     {"pooling", recipe.pooling},
                     {"prefix", recipe.prefix},
                     {"truncate", recipe.truncation},
                     {"weights", recipe.weights}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string fingerprint(const VectorRecipe& recipe) {
  return store::digest_of(canonical_json(recipe)).text();
}

std::optional<std::string> digest_in(const std::string& line) {
  const size_t at = line.rfind("sha256");
  const auto digest =
      at == std::string::npos ? std::nullopt : store::Digest::parse(line.substr(at));
  return digest ? std::optional(digest->text()) : std::nullopt;
}

std::optional<std::string> shown_weights(const Json& shown) {
  // The first FROM names the file of the weights: "FROM /models/blobs/sha256-...".
  std::vector<std::string> digests;
  std::istringstream lines(text_field(shown, "modelfile"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(digests.empty() ? "FROM " : "ADAPTER ")) continue;
    auto digest = digest_in(line);
    if (!digest) return std::nullopt;
    digests.push_back(*std::move(digest));
  }
  if (digests.size() > 1) return store::digest_of(Json(digests).dump()).text();
  return digests.empty() ? std::nullopt : std::optional(digests.front());
}

std::string weights_digest(ApiClient& client, const std::string& model) {
  if (auto digest = shown_weights(client.post("/api/show", {{"model", model}})))
    return *std::move(digest);
  throw Error(ErrorCode::kUnsupported,
              "the server does not report the digest of the weights of '" + model + "'");
}

void check_truncation(const std::string& truncation) {
  if (truncation == "none" || truncation == "left" || truncation == "right") return;
  throw Error(ErrorCode::kInvalidInput,
              "--truncate must be none, left or right, not '" + truncation + "'");
}

}  // namespace billow::cli
