// billow keys: adds, lists and revokes the API keys in a file of `billow serve --api-keys`.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/suggestion.h"
#include "cli/client/command_line.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/option_checks.h"
#include "cli/variable.h"
#include "keys/keys_file.h"

namespace billow::cli {
namespace {

struct Options {
  std::string file;
  std::string roles = "use";
  keys::Limits limits;
};

// The options that only `add` has.
constexpr const char* kAddOptions[] = {"--roles", "--max-requests", "--tokens-per-minute",
                                       "--weight"};

std::string file_of(const Options& options) {
  const std::string file =
      options.file.empty() ? variable("BILLOW_API_KEYS").value_or("") : options.file;
  if (!file.empty()) return file;
  refuse_usage("--file FILE is required (or BILLOW_API_KEYS)");
}

void add(const Options& options, const std::string& name) {
  const std::string path = file_of(options);
  const std::string key = keys::new_key();
  const keys::KeyRecord record{.name = name,
                               .digest = store::digest_of(key),
                               .roles = keys::parse_roles(options.roles),
                               .limits = options.limits};
  keys::add_key("", record, path);  // checks the record before the file is created
  const bool is_new = ::access(path.c_str(), F_OK) != 0;
  keys::KeysFileChange change(path);
  const std::string before = keys::read_keys_file(path);
  change.write(keys::add_key(before, record, path));
  // The user of the package's service.
  if (is_new && ::geteuid() == 0 && ::getpwnam("billow") != nullptr) {
    std::fprintf(stderr,
                 "%s belongs to root. So that the service can read it: "
                 "chown root:billow %s && chmod 640 %s\n",
                 path.c_str(), path.c_str(), path.c_str());
  }
  std::fprintf(stderr, "This is the API key of '%s'. Store it now: %s has only its digest.\n",
               name.c_str(), path.c_str());
  try {
    print_now(key + "\n");
  } catch (...) {  // nobody has the key
    change.write(before);
    throw;
  }
}

void revoke(const Options& options, const std::string& name) {
  const std::string path = file_of(options);
  keys::revoke_key(keys::read_keys_file(path), name, path);  // the file must exist
  keys::KeysFileChange change(path);
  change.write(keys::revoke_key(keys::read_keys_file(path), name, path));
  print_now(fmt::format("revoked '{}'\n", name));
}

std::string limit_text(uint64_t limit) { return limit == 0 ? "-" : std::to_string(limit); }

void list(const Options& options) {
  const std::string path = file_of(options);
  const std::vector<keys::KeyRecord> records = keys::parse_keys(keys::read_keys_file(path), path);
  size_t width = 4;
  for (const keys::KeyRecord& record : records) width = std::max(width, record.name.size());
  const auto row = [&](std::string_view name, std::string_view roles, std::string_view requests,
                       std::string_view tokens, std::string_view weight) {
    return fmt::format("{:<{}}  {:<18}  {:>12}  {:>17}  {:>6}\n", name, width, roles, requests,
                       tokens, weight);
  };
  std::string text = row("NAME", "ROLES", "MAX REQUESTS", "TOKENS PER MINUTE", "WEIGHT");
  for (const keys::KeyRecord& record : records) {
    text += row(record.name, keys::roles_text(record.roles), limit_text(record.limits.max_requests),
                limit_text(record.limits.tokens_per_minute), std::to_string(record.limits.weight));
  }
  print_now(text);
}

void run(const CLI::App& command, const std::vector<std::string>& words, const Options& options) {
  const std::string& action = words[0];
  const std::vector<std::string> actions = {"add", "list", "revoke"};
  if (std::ranges::find(actions, action) == actions.end())
    refuse_usage(fmt::format("unknown action '{}'; the actions are add, list and revoke", action));
  const bool takes_name = action != "list";
  if (words.size() != (takes_name ? 2U : 1U))
    refuse_usage(takes_name ? fmt::format("write the name of the key: billow keys {} NAME", action)
                            : "'billow keys list' takes no name");
  for (const char* option : kAddOptions)
    if (action != "add" && command.count(option) > 0)
      refuse_usage(fmt::format("'billow keys {}' has no option {}", action, option));
  if (action == "add") return add(options, words[1]);
  if (action == "revoke") return revoke(options, words[1]);
  list(options);
}

}  // namespace

void add_keys(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  const auto self = std::make_shared<CLI::App*>();
  CLI::App& command = add_client_command(
      app,
      {.name = "keys",
       .description = "API keys of a server: add, list or revoke them in a file",
       .arguments = "add|list|revoke [NAME] --file FILE",
       .min = 1,
       .max = 2,
       .variables = {{"BILLOW_API_KEYS", "The file, if --file is not given"}}},
      [options, self](const std::vector<std::string>& words) { run(**self, words, *options); });
  *self = &command;
  command.add_option("--file", options->file, "The file of 'billow serve --api-keys'");
  command.add_option("--roles", options->roles,
                     "What the key may do: use, manage, observe, separated by commas; default: use "
                     "(add)");
  command
      .add_option("--max-requests", options->limits.max_requests,
                  "Max requests at the same time; default: no limit (add)")
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
  command
      .add_option("--tokens-per-minute", options->limits.tokens_per_minute,
                  "Max tokens per minute, evaluated and generated; default: no limit (add)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000'000}));
  command
      .add_option("--weight", options->limits.weight,
                  "Share of the server while other keys have work, too, relative to their weights; "
                  "default: 1 (add)")
      ->check(CLI::Range(uint32_t{1}, keys::kMaxWeight));
  command.footer(command.get_footer() +
                 "\n\nActions:\n"
                 "  add NAME      make a key, print it once, and append its digest to the file\n"
                 "  list          print the names, roles and limits\n"
                 "  revoke NAME   remove the key from the file\n\n"
                 "A running server reads the changed file within two seconds.");
}

}  // namespace billow::cli
