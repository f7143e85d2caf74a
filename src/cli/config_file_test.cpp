#include "cli/config_file.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/test_source_dir.h"
#include "cli/command.h"
#include "cli/option_checks.h"
#include "cli/option_variables.h"

namespace billow::cli {
namespace {

using Words = std::vector<std::string>;

class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() {
    add_serve(app_);
    refuse_wrong_counts(app_);
    serve_ = app_.get_subcommand("serve");
  }
  Words words(const std::string& text, const Words& typed = {"serve"},
              const std::string& variable = "") const {
    return config_words(*serve_, parse_config(text, "billow.toml"), typed,
                        [&](std::string_view name) { return name == variable; });
  }
  std::string refusal(const std::string& text) const {
    try {
      words(text);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_;
  CLI::App* serve_ = nullptr;
};

TEST_F(ConfigFile, SettingsBecomeOptions) {
  EXPECT_EQ(words("# a comment\nkeep-alive = \"1h\"\nparallel = 4\ndrain-timeout = 2.5\n"),
            (Words{"--drain-timeout=2.5", "--keep-alive=1h", "--parallel=4"}));
  EXPECT_EQ(words(""), Words{});
}

TEST_F(ConfigFile, FlagsAndLists) {
  EXPECT_EQ(words("read-only = true"), Words{"--read-only"});
  EXPECT_EQ(words("read-only = false"), Words{});
  EXPECT_EQ(words("preload = [\"a\", \"b\"]"), (Words{"--preload=a", "--preload=b"}));
  EXPECT_EQ(words("context-sizes = [512, 1024]"), Words{"--context-sizes=512,1024"});
  EXPECT_EQ(words("origins = [\"http://a\", \"*\"]"), Words{"--origins=http://a,*"});
}

TEST_F(ConfigFile, OptionsAndVariablesWin) {
  const std::string text = "keep-alive = \"1h\"\nn-batch = 512";
  EXPECT_EQ(words(text, {"serve", "--keep-alive", "2h"}), Words{"--n-batch=512"});
  EXPECT_EQ(words(text, {"serve", "--keep-alive=2h", "-b", "64"}), Words{});
  EXPECT_EQ(words(text, {"serve"}, "KEEP_ALIVE"), Words{"--n-batch=512"});
}

TEST_F(ConfigFile, WrongFilesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal("keep_alive = \"1h\""),
            "billow.toml:1: unknown setting 'keep_alive'; did you mean 'keep-alive'?");
  EXPECT_EQ(refusal("\n\nbanana = 1"), "billow.toml:3: unknown setting 'banana'");
  EXPECT_EQ(refusal("config = \"x\""), "billow.toml:1: unknown setting 'config'");
  EXPECT_EQ(refusal("[serve]\nhost = \"x\"").substr(0, 34), "billow.toml:1: 'serve' is a table;");
  EXPECT_EQ(refusal("read-only = 1"), "billow.toml:1: 'read-only' must be true or false");
  EXPECT_EQ(refusal("host = 2024-01-01"),
            "billow.toml:1: 'host' must be a text, a number, true or false, or a list of them");
  EXPECT_EQ(refusal("host = ").substr(0, 15), "billow.toml:1: ");
  EXPECT_EQ(refusal("host = \"a\"\nhost = \"b\"").substr(0, 15), "billow.toml:2: ");
}

TEST_F(ConfigFile, WrongValuesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal("\nkv-type = \"q5\""),
            "billow.toml:2: --kv-type: q5 not in {f16,q8_0,q4_0,f32}");
  EXPECT_EQ(refusal("parallel = 0"), "billow.toml:1: --parallel: Value 0 not in range 1 to 1024");
  EXPECT_EQ(refusal("traces = 1.5"),
            "billow.toml:1: --traces: '1.5' is not a whole number of at least 0");
  EXPECT_EQ(refusal("n-batch = -1"),
            "billow.toml:1: --n-batch: '-1' is not a whole number of at least 1");
  EXPECT_EQ(refusal("context-sizes = [512, \"x\"]"),
            "billow.toml:1: --context-sizes: 'x' is not a whole number of at least 1");
  EXPECT_EQ(refusal("context-sizes = \"512,0\""),
            "billow.toml:1: --context-sizes: '0' is not a whole number of at least 1");
  EXPECT_EQ(refusal("web-page = false"), "billow.toml:1: --web-page: false not in {on,off}");
  EXPECT_EQ(refusal("keep-alive = \"xx\""),
            "billow.toml:1: --keep-alive: time: invalid duration \"xx\"");
  EXPECT_EQ(refusal("drain-delay = \"x\""),
            "billow.toml:1: --drain-delay: 'x' is not a number from 0 to 86400");
  EXPECT_EQ(refusal("memory = \"0\""),
            "billow.toml:1: --memory: 0 leaves no memory; give a size like 2G or leave it out");
  EXPECT_EQ(refusal("host = \"unix:\""),
            "billow.toml:1: --host: unix:PATH needs the path of the socket");
}

TEST_F(ConfigFile, ValuesThatAnOptionReplacesAreNotChecked) {
  EXPECT_EQ(words("parallel = 0", {"serve", "--parallel", "2"}), Words{});
}

// The table of variables is the one of the documents.
TEST_F(ConfigFile, VariablesAreThoseOfTheDocuments) {
  std::ifstream file(source_dir() + "/docs/operations.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::regex row(R"(\| `--([a-z-]+)[^|]*\| (`([A-Z_]+)`)? ?\|[^\n]*)");
  size_t n_rows = 0;
  const std::string all = text.str();
  for (std::sregex_iterator it(all.begin(), all.end(), row), end; it != end; ++it, ++n_rows) {
    EXPECT_EQ(variable_of((*it)[1].str()), (*it)[3].str()) << (*it)[0];
    EXPECT_NE(serve_->get_option_no_throw("--" + (*it)[1].str()), nullptr) << (*it)[0];
  }
  EXPECT_GT(n_rows, 40u);
}

}  // namespace
}  // namespace billow::cli
