// billow generate --in: answers all prompts of a file, on a server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/client/bulk.h"

namespace CLI {
class App;
}

namespace billow::cli {

struct GenerateOptions;

struct GenerateBulkOptions {
  RowOptions rows{.field = {}, .column = "prompt"};
  std::string out;
  size_t n_jobs = 8;
  double timeout_s = 60.0;
  int64_t max_errors = 1000;  // negative: no limit

  void declare(CLI::App& command);
};

// Runs the command with the options that were given on the command line. Options without an
// equivalent in the server's API are wrong usage. Ends the program if the job fails.
void generate_in_bulk(const CLI::App& command, const GenerateOptions& options);
// Refuses a command line that has an option of bulk work as wrong usage.
void refuse_bulk_options(const CLI::App& command);

}  // namespace billow::cli
