// billow imatrix: measures how large the inputs of a model's matrix products are, for billow
// quantize.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "cli/output_file.h"
#include "engine/importance.h"
#include "gguf/atomic_file.h"
#include "gguf/file.h"

namespace billow::cli {
namespace {

struct ImatrixOptions {
  ModelOptions model;
  std::string file;
  std::string out;
  std::string format = "gguf";
  engine::ImportanceOptions importance;
};

quantize::ImportanceSums measure(const ImatrixOptions& options) {
  const MappedFile text(options.file);
  engine::Engine engine(options.model.model, options.model.engine());
  std::vector<std::string> inputs = files_read(options.model, engine.file());
  inputs.push_back(options.file);
  refuse_to_replace(options.out, inputs);
  const std::string_view view(reinterpret_cast<const char*>(text.bytes().data()),
                              text.bytes().size());
  const std::vector<int32_t> tokens =
      engine.tokenizer().encode(view, {.add_special = true, .parse_special = false});
  const Interrupt interrupt;
  StatusLine status;
  auto sums = engine::measure_importance(engine, tokens, options.importance,
                                         [&](size_t n_done, size_t n_chunks) {
                                           if (const int signal = interrupt.signal()) {
                                             status.erase();
                                             throw CLI::RuntimeError(exit_status_of(signal));
                                           }
                                           status.show("reading " + options.file, n_done, n_chunks);
                                         });
  status.erase();
  sums.dataset = options.file;
  return sums;
}

void run(const ImatrixOptions& options) {
  gguf::AtomicFile out(options.out);  // a folder that is missing fails before the measurement
  const quantize::ImportanceSums sums = measure(options);
  out.write(options.format == "dat" ? quantize::older_form(sums) : quantize::gguf_form(sums));
  out.commit();
  std::printf("%s: %zu entries of %u chunks\n", options.out.c_str(), sums.entries.size(),
              sums.n_chunks);
}

}  // namespace

void add_imatrix(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "imatrix", "Measure which weights of a model matter for a text, for billow quantize");
  auto options = std::make_shared<ImatrixOptions>();
  options->model.declare(*command);
  command->add_option("-f,--file", options->file, "The text")->required();
  command->add_option("-o,--output", options->out, "The new file")->required();
  command->add_option("--chunks", options->importance.n_chunks,
                      "Number of chunks of 512 tokens to read; 0: the whole text");
  command->add_flag("--process-output", options->importance.output_weights,
                    "Measure output.weight, too");
  command->add_option("--output-format", options->format, "gguf, or dat for older programs")
      ->check(CLI::IsMember({"gguf", "dat"}))
      ->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
