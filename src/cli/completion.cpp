// billow __complete: the words that a shell can offer next. The scripts of packaging/completions
// call it with the words after "billow"; the last word is the one to complete and can be empty.
// Prints a word on each line, then a tab and what the word is. Prints nothing where the shell
// should offer files.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/api_key.h"
#include "cli/client/command_line.h"
#include "cli/command.h"
#include "cli/program.h"
#include "http/client.h"

namespace billow::cli {
namespace {

// A shell waits this long for the server's list of models.
constexpr std::chrono::milliseconds kListTimeout{200};

struct Offer {
  std::string word;
  std::string what;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<Offer> commands(const CLI::App& app) {
  std::vector<Offer> offers;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty())
      offers.push_back({command->get_name(), first_line(command->get_description())});
  return offers;
}

std::vector<Offer> options(const CLI::App& command) {
  std::vector<Offer> offers;
  for (const CLI::Option* option : shown_options(command)) {
    if (option->get_positional()) continue;
    for (const std::string& name : option->get_lnames())
      offers.push_back({"--" + name, first_line(option->get_description())});
  }
  return offers;
}

// The values of an option that takes one of a few words: the library writes them into the name of
// its type, "TEXT:{auto,billow,llama}".
std::vector<Offer> values(const CLI::Option& option) {
  std::vector<Offer> offers;
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return offers;
  for (const std::string& word : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ','))
    offers.push_back({word, ""});
  return offers;
}

const CLI::Option* option_of(const CLI::App& command, std::string_view word) {
  if (!word.starts_with('-')) return nullptr;
  const CLI::Option* option = command.get_option_no_throw(std::string(word));
  return option != nullptr && option->get_items_expected_max() > 0 ? option : nullptr;
}

// The models of the server; none if no server answers in time.
std::vector<Offer> models() {
  std::vector<Offer> offers;
  try {
    const scheduler::Endpoint server = client_environment().host.for_clients();
    http::Client client(
        {.host = server.host, .port = server.port},
        {.connect_timeout = kListTimeout, .idle_timeout = kListTimeout, .headers = key_headers()});
    const Json reply = Json::parse(client.send({.target = "/api/tags"}).body);
    for (const Json& model : reply.at("models"))
      offers.push_back({model.at("name").get<std::string>(), "model"});
  } catch (const std::exception&) {
    return {};  // completion is silent: an error would garble the line that is edited
  }
  return offers;
}

bool takes_models(const std::string& command) {
  for (const char* name : {"run", "show", "cp", "rm", "stop", "push", "embed", "fingerprint"})
    if (command == name) return true;
  return false;
}

// The actions of a command that has actions; none for other commands.
std::vector<Offer> actions(const std::string& command) {
  if (command == "fleet") return {{"config", ""}, {"check", ""}, {"status", ""}};
  if (command == "keys") return {{"add", ""}, {"list", ""}, {"revoke", ""}};
  return {};
}

std::vector<Offer> offers_for(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.size() <= 1) return commands(app);
  const CLI::App* command = find_command(app, words.front());
  if (command == nullptr) return {};
  if (const CLI::Option* option = option_of(*command, words[words.size() - 2]))
    return values(*option);
  if (words.back().starts_with('-')) return options(*command);
  if (command->get_name() == "help") return commands(app);
  if (words.size() == 2)
    if (std::vector<Offer> offered = actions(command->get_name()); !offered.empty()) return offered;
  return takes_models(command->get_name()) ? models() : std::vector<Offer>{};
}

}  // namespace

void add_complete(CLI::App& app) {
  CLI::App* command = app.add_subcommand("__complete", "Print the words that a shell can offer");
  command->prefix_command();  // the words are no options of this command
  command->callback([&app, command] {
    const std::vector<std::string> words = command->remaining();
    const std::string begun = words.empty() ? "" : words.back();
    for (const Offer& offer : offers_for(app, words))
      if (offer.word.starts_with(begun))
        std::printf("%s\t%s\n", offer.word.c_str(), offer.what.c_str());
  });
}

}  // namespace billow::cli
