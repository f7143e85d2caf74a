#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "cli/option_checks.h"

namespace billow::cli {
namespace {

engine::LogitBias parse_logit_bias(const std::string& text) {
  engine::LogitBias bias;
  const size_t equals = text.find('=');
  const char* end = text.data() + text.size();
  bool good = equals != std::string::npos;
  if (good) {
    const char* value = text.data() + equals + 1;
    const auto id = std::from_chars(text.data(), text.data() + equals, bias.token);
    good = id.ec == std::errc() && id.ptr == text.data() + equals;
    if (text.substr(equals + 1) == "ban") {
      bias.bias = -std::numeric_limits<float>::infinity();
    } else {
      const auto number = std::from_chars(value, end, bias.bias);
      good = good && number.ec == std::errc() && number.ptr == end;
    }
  }
  if (!good)
    throw Error(ErrorCode::kInvalidInput,
                "--logit-bias " + text + " should be like 42=-1.5 or 42=ban");
  return bias;
}

}  // namespace

void SamplingFlags::declare(CLI::App& command) {
  const std::string group = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->group(group)->capture_default_str();
  };
  add("--temperature", sampling.temperature, "How randomly to choose; 0: always the best token");
  add("--top-k", sampling.top_k, "Choose among the K best tokens; 0: off");
  add("--top-p", sampling.top_p,
      "Choose among the best tokens that together have probability P; 1: off");
  add("--min-p", sampling.min_p,
      "Choose among tokens at least P times as probable as the best; 0: off");
  add("--typical-p", sampling.typical_p, "Locally typical sampling; 1: off");
  add("--repeat-last-n", sampling.repeat_last_n,
      "Number of recent tokens that penalties apply to; 0: none, -1: all");
  add("--repeat-penalty", sampling.repeat_penalty, "Divides the logits of repeated tokens; 1: off");
  add("--presence-penalty", sampling.presence_penalty,
      "Subtracted once from the logits of repeated tokens");
  add("--frequency-penalty", sampling.frequency_penalty, "Subtracted for each repetition");
  add("--mirostat", sampling.mirostat, "Mirostat version 1 or 2 instead of the filters; 0: off");
  add("--mirostat-tau", sampling.mirostat_tau, "Surprise that mirostat aims for, in bits");
  add("--mirostat-eta", sampling.mirostat_eta, "How fast mirostat corrects itself");
  add("--seed", sampling.seed, "Seed of the random numbers; negative: a different seed each time");
  command
      .add_option("--logit-bias", logit_bias,
                  "ID=BIAS added to a token's logit, or ID=ban; may be repeated")
      ->group(group);
  command
      .add_option("--logprobs", n_logprobs,
                  "Report log probabilities and the N best alternatives (with --json)")
      ->check(whole_number(0, std::numeric_limits<int>::max()))
      ->group(group);
}

engine::SamplingOptions SamplingFlags::checked() const {
  engine::SamplingOptions options = sampling;
  for (const std::string& text : logit_bias) options.logit_bias.push_back(parse_logit_bias(text));
  options.logprobs = n_logprobs >= 0;
  options.top_logprobs = n_logprobs >= 0 ? n_logprobs : 0;
  options.validate();
  return options;
}

}  // namespace billow::cli
