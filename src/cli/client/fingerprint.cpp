// billow fingerprint: names what the vectors of a job depend on, to know stored ones again.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/vector_recipe.h"
#include "cli/command.h"
#include "cli/console.h"

namespace billow::cli {
namespace {

struct Options {
  std::string model;
  std::string operation = "embed";
  VectorRecipe recipe;
  bool no_normalise = false;
  bool json = false;
};

void run(Options options) {
  if (options.model.empty()) throw Error(ErrorCode::kInvalidInput, "--model is required");
  if (options.operation != "embed") {
    throw Error(ErrorCode::kUnsupported,
                "--op is embed, not '" + options.operation + "'; no other is known yet");
  }
  VectorRecipe& recipe = options.recipe;
  check_truncation(recipe.truncation);
  recipe.normalise = !options.no_normalise;
  recipe.weights = weights_digest(*connected_client(), options.model);
  if (!options.json) return print_now(fingerprint(recipe) + "\n");
  const Json shown = {{"fingerprint", fingerprint(recipe)},
                      {"of", Json::parse(canonical_json(recipe))},
                      {"model", options.model},
                      {"client_version", BILLOW_VERSION}};
  print_now(shown.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void add_fingerprint(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& command =
      add_client_command(app,
                         {.name = "fingerprint",
                          .description = "Print a digest of all that a job's vectors depend on",
                          .arguments = "",
                          .min = 0,
                          .max = 0},
                         [options](const std::vector<std::string>&) { run(*options); });
  command.add_option("-m,--model", options->model, "The model");
  command.add_option("--op", options->operation, "The operation: embed");
  VectorRecipe& recipe = options->recipe;
  command.add_option("--prefix", recipe.prefix, "As of billow embed, like those that follow");
  command.add_option("--dimensions", recipe.dimensions, "");
  command.add_option("--pooling", recipe.pooling, "");
  command.add_flag("--no-normalize", options->no_normalise, "");
  command.add_option("--truncate", recipe.truncation, "");
  command.add_flag("--json", options->json, "Also print what it is made of");
}

}  // namespace billow::cli
