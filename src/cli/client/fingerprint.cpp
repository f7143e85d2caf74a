// billow fingerprint: prints a digest of everything that the vectors of a job depend on, to
// identify stored vectors.
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
#include "cli/option_checks.h"

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
  if (options.model.empty()) refuse_usage("--model is required");
  if (options.operation != "embed")
    refuse_usage("--op must be embed, not '" + options.operation + "'");
  VectorRecipe& recipe = options.recipe;
  as_usage([&] { check_truncation(recipe.truncation); });
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
  CLI::App& command = add_client_command(
      app,
      {.name = "fingerprint",
       .description = "Print a digest of everything that a job's vectors depend on",
       .arguments = "",
       .min = 0,
       .max = 0},
      [options](const std::vector<std::string>&) { run(*options); });
  command.add_option("-m,--model", options->model, "The model");
  command.add_option("--op", options->operation, "The operation: embed");
  VectorRecipe& recipe = options->recipe;
  command.add_option("--prefix", recipe.prefix, "Text to put before every text");
  command.add_option("--dimensions", recipe.dimensions, "Keep only this many of the first values");
  command.add_option("--pooling", recipe.pooling,
                     "mean, cls, last or max; default: the model's pooling");
  command.add_flag("--no-normalize", options->no_normalise, "Do not normalize the vectors");
  command.add_option("--truncate", recipe.truncation,
                     "Where to cut a text that is too long: right (default) or left; none: fail");
  command.add_flag("--json", options->json,
                   "Print a JSON object with the digest and everything that it is made from");
}

}  // namespace billow::cli
