// billow logits: shows or writes a model's logits at every position.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "cli/numpy.h"
#include "cli/output_file.h"
#include "cli/token_text.h"
#include "convert/float_weights.h"
#include "cpu/memory.h"
#include "gguf/atomic_file.h"

namespace billow::cli {
namespace {

using tokenizer::TokenId;
using tokenizer::Tokenizer;

constexpr size_t kShownTokens = 5;  // best tokens per position

struct LogitsOptions {
  ModelOptions model;
  size_t n_batch = engine::EngineOptions{}.n_batch;
  std::optional<std::string> tokens;
  std::optional<std::string> text;
  std::string out;
  bool exact = false;
  bool json = false;
};

// Receives the logits of each position, in order.
using EachRow = std::function<void(size_t position, std::span<const float> logits)>;

std::vector<TokenId> read_tokens(const LogitsOptions& options, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  if (options.tokens) {
    append_token_ids(*options.tokens, tokenizer, ids);
  } else {
    ids = tokenizer.encode(options.text.value_or(""), {.parse_special = true});
  }
  if (ids.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                std::string(options.tokens ? "--tokens has no token ids" : "--text is empty") +
                    "; give at least one token");
  }
  return ids;
}

// Throws Error if `path` is not a regular file: the array would replace a device or a pipe.
void check_out(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kInvalidInput,
              path + (S_ISDIR(status.st_mode) ? " is a directory; give the path of a file"
                                              : " is not a regular file; give the path of a file, "
                                                "or - for standard output"));
}

// Evaluates all rows. After Ctrl-C, throws CLI::RuntimeError.
void evaluate(engine::Engine& engine, std::span<const TokenId> tokens, const Interrupt& interrupt,
              const EachRow& each) {
  const auto check = [&] {
    if (const int signal = interrupt.signal(); signal != 0)
      throw CLI::RuntimeError(exit_status_of(signal));
  };
  check();  // a signal may have come while the model was loaded
  engine.evaluate(tokens, 0, [&](size_t position, std::span<const float> logits) {
    check();
    each(position, logits);
  });
}

void write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", "standard output", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void print(const std::string& text) { write_all(std::as_bytes(std::span(text))); }

void write_array(engine::Engine& engine, std::span<const TokenId> tokens,
                 const Interrupt& interrupt, NumpyRows::Sink sink) {
  NumpyRows rows(tokens.size(), engine.model().n_vocab, std::move(sink));
  evaluate(engine, tokens, interrupt,
           [&](size_t, std::span<const float> logits) { rows.append(logits); });
  rows.flush();
}

// Returns the best tokens, best first. Of equal tokens, the lower id comes first. NaN comes last.
std::vector<TokenId> best_tokens(std::span<const float> logits) {
  const auto key = [&](TokenId id) {
    const float logit = logits[static_cast<size_t>(id)];
    return std::isnan(logit) ? -INFINITY : logit;
  };
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t n = std::min(kShownTokens, ids.size());
  std::ranges::partial_sort(
      ids, ids.begin() + static_cast<std::ptrdiff_t>(n),
      [&](TokenId a, TokenId b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  ids.resize(n);
  return ids;
}

// Returns a line of the output, like "3  20 "the"  17 " cat" 12.3456  ...".
std::string row_text(const Tokenizer& tokenizer, std::span<const TokenId> tokens, size_t position,
                     std::span<const float> logits) {
  const auto piece = [&](TokenId id) {
    return '"' + visible_text(tokenizer.piece(id, true)) + '"';
  };
  const size_t position_width = std::to_string(tokens.size() - 1).size();
  const size_t id_width = std::to_string(tokenizer.n_tokens() - 1).size();
  std::string line = fmt::format("{:>{}}  {:>{}} {:<12} ", position, position_width,
                                 tokens[position], id_width, piece(tokens[position]));
  for (const TokenId id : best_tokens(logits)) {
    line += fmt::format("  {:>{}} {:<10} {:8.4f}", id, id_width, piece(id),
                        logits[static_cast<size_t>(id)]);
  }
  return line + '\n';
}

Json row_json(const Tokenizer& tokenizer, TokenId token, size_t position,
              std::span<const float> logits) {
  Json top = Json::array();
  for (const TokenId id : best_tokens(logits)) {
    top.push_back(Json{{"token", id},
                       {"piece", json_piece(tokenizer.piece(id, true))},
                       {"logit", logits[static_cast<size_t>(id)]}});
  }
  return {{"position", position},
          {"token", token},
          {"piece", json_piece(tokenizer.piece(token, true))},
          {"top", std::move(top)}};
}

// Returns the logits of the vocabulary. Rows of the embedding after the vocabulary are padding.
std::span<const float> of_vocabulary(const Tokenizer& tokenizer, std::span<const float> logits) {
  return logits.first(std::min(logits.size(), static_cast<size_t>(tokenizer.n_tokens())));
}

void show(engine::Engine& engine, std::span<const TokenId> tokens, const Interrupt& interrupt,
          bool json) {
  const Tokenizer& tokenizer = engine.tokenizer();
  std::string begin = fmt::format(
      "{} positions x {} logits; for each position: its token, and the {} best next tokens\n",
      tokens.size(), engine.model().n_vocab, kShownTokens);
  std::string between;
  std::string end;
  if (json) {
    begin = fmt::format("{{\"n_tokens\":{},\"n_vocab\":{},\"positions\":[", tokens.size(),
                        engine.model().n_vocab);
    between = ",";
    end = "]}\n";
  }
  evaluate(engine, tokens, interrupt, [&](size_t position, std::span<const float> row) {
    const std::span<const float> logits = of_vocabulary(tokenizer, row);
    const std::string text = json ? row_json(tokenizer, tokens[position], position, logits).dump()
                                  : row_text(tokenizer, tokens, position, logits);
    print((position == 0 ? begin : between) + text);
  });
  print(end);
}

// Returns the file with its weights as floats. Needs the memory twice, because the engine copies
// them.
std::vector<std::byte> decoded(const gguf::File& file) {
  const uint64_t needed = 2 * convert::float_weight_bytes(file);
  const uint64_t usable = cpu::usable_memory();
  if (needed > usable) {
    throw Error(ErrorCode::kOutOfMemory, file.path() + ": --exact needs " +
                                             format_byte_size(needed) + " of memory, but only " +
                                             format_byte_size(usable) +
                                             " can be used; leave out --exact");
  }
  return convert::with_float_weights(file).to_bytes();
}

void run(const LogitsOptions& options) {
  const bool to_standard_output = options.out == kStandardOutput;
  if (to_standard_output && ::isatty(STDOUT_FILENO) != 0) {
    throw Error(ErrorCode::kInvalidInput,
                "--out - would write an array to the terminal; redirect standard output");
  }
  gguf::File file = gguf::File::open(options.model.model);
  const std::vector<TokenId> tokens = read_tokens(options, Tokenizer::load(file));
  const Interrupt interrupt;
  std::optional<gguf::AtomicFile> out;
  if (!options.out.empty() && !to_standard_output) {
    check_out(options.out);
    refuse_to_replace(options.out, files_read(options.model, file));
    out.emplace(options.out);
  }
  engine::EngineOptions engine_options = options.model.engine();
  engine_options.n_batch = options.n_batch;
  engine_options.max_sequences = 1;
  std::vector<std::byte> exact;  // outlives the engine
  if (options.exact) {
    exact = decoded(file);
    file = gguf::File::parse(exact, options.model.model);
  }
  engine::Engine engine(std::move(file), engine_options);
  if (options.out.empty()) return show(engine, tokens, interrupt, options.json);
  if (to_standard_output) return write_array(engine, tokens, interrupt, write_all);
  write_array(engine, tokens, interrupt,
              [&](std::span<const std::byte> bytes) { out->write(bytes); });
  out->commit();
  const size_t n_vocab = engine.model().n_vocab;
  if (options.json) {
    const Json report = {{"file", options.out},
                         {"n_tokens", tokens.size()},
                         {"n_vocab", n_vocab},
                         {"tokens", tokens}};
    return print(report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  print(fmt::format("{}: {} positions x {} logits\n", options.out, tokens.size(), n_vocab));
}

}  // namespace

void add_logits(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("logits", "Show or write a model's logits at every position");
  auto options = std::make_shared<LogitsOptions>();
  options->model.kv_type = "f32";  // to compare logits with those of other programs
  options->model.declare(*command);
  CLI::Option_group* input = command->add_option_group("Input", "one of them");
  input->require_option(1);
  input->add_option("--tokens", options->tokens, "Token ids, like 1,5,9");
  input->add_option(
      "--text", options->text,
      "A text. BOS is added if the model expects it; control tokens in the text become tokens");
  command
      ->add_option("-b,--batch", options->n_batch,
                   "Max positions per pass; does not change the results")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option(
      "-o,--out", options->out,
      "Write all logits to this file, a .npy array of float32 [positions][vocabulary]; "
      "-: to standard output");
  command->add_flag("--exact", options->exact,
                    "Decode quantised weights to floats first; needs 8 bytes of memory per weight. "
                    "Without --exact, activations are rounded to 8 bits, as in a server");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] {
    if (options->json && options->out == kStandardOutput)
      throw CLI::ExcludesError("--json", "--out -");
    run(*options);
  });
}

}  // namespace billow::cli
