#include "cli/client/vector_recipe.h"

#include <sstream>

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

std::optional<std::string> shown_weights(const Json& shown) {
  // The first FROM of the Modelfile names the file of the weights: "FROM /models/blobs/sha256-...".
  std::istringstream lines(text_field(shown, "modelfile"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("FROM ")) continue;
    const size_t at = line.rfind("sha256");
    const auto digest =
        at == std::string::npos ? std::nullopt : store::Digest::parse(line.substr(at));
    return digest ? std::optional(digest->text()) : std::nullopt;
  }
  return std::nullopt;
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
