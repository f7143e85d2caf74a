#include "cli/client/session_help.h"

namespace billow::cli {
namespace {

constexpr std::string_view kCommands = R"(Available Commands:
  /set            Set session variables
  /show           Show model information
  /load <model>   Load a session or model
  /save <model>   Save your current session
  /clear          Clear session context
  /list           List the models of the server
  /bye            Exit
  /?, /help       Help for a command
  /? shortcuts    Help for keyboard shortcuts

Use """ to begin a multi-line message. Pasted text is part of the message, never a command.
)";

constexpr std::string_view kSet = R"(Available Commands:
  /set parameter ...     Set a parameter
  /set system <string>   Set system message
  /set history           Enable history
  /set nohistory         Disable history
  /set wordwrap          Enable wordwrap
  /set nowordwrap        Disable wordwrap
  /set format json       Enable JSON mode
  /set noformat          Disable formatting
  /set verbose           Show statistics of each answer
  /set quiet             Hide statistics
  /set think [level]     Enable thinking: low, medium, high or max if the model has levels
  /set nothink           Disable thinking

)";

constexpr std::string_view kParameters = R"(Available Parameters:
  /set parameter seed <int>             Random number seed
  /set parameter num_predict <int>      Max number of tokens to predict
  /set parameter top_k <int>            Pick from top k num of tokens
  /set parameter top_p <float>          Pick token based on sum of probabilities
  /set parameter min_p <float>          Pick token based on top token probability * min_p
  /set parameter num_ctx <int>          Accepted; every request gets the context that it needs
  /set parameter temperature <float>    Set creativity level
  /set parameter repeat_penalty <float> How strongly to penalize repetitions
  /set parameter repeat_last_n <int>    Set how far back to look for repetitions
  /set parameter stop <string> <string> ...   Set the stop parameters

)";

constexpr std::string_view kShow = R"(Available Commands:
  /show info         Show details for this model
  /show license      Show model license
  /show modelfile    Show Modelfile for this model
  /show parameters   Show parameters for this model
  /show system       Show system message
  /show template     Show prompt template

)";

constexpr std::string_view kShortcuts = R"(Available keyboard shortcuts:
  Ctrl + a            Move to the beginning of the line (Home)
  Ctrl + e            Move to the end of the line (End)
   Alt + b            Move back (left) one word
   Alt + f            Move forward (right) one word
  Ctrl + k            Delete the sentence after the cursor
  Ctrl + u            Delete the sentence before the cursor
  Ctrl + w            Delete the word before the cursor
   Alt + d            Delete the word after the cursor
  Ctrl + y            Insert the last deleted text
   Alt + Enter        Begin a new line within the message
  Ctrl + p, Ctrl + n  Older and newer messages (Up, Down)

  Ctrl + l            Clear the screen
  Ctrl + c            Stop the model from responding
  Ctrl + d            Exit (/bye)

)";

}  // namespace

std::string_view session_help(std::string_view topic) noexcept {
  if (topic == "set") return kSet;
  if (topic == "parameter") return kParameters;
  if (topic == "show") return kShow;
  return topic == "shortcut" || topic == "shortcuts" ? kShortcuts : kCommands;
}

}  // namespace billow::cli
