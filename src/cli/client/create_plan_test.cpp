#include "cli/client/create_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "store/name.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

class CreatePlanTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }

  void write(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << name;
  }
  std::string names() {
    std::string all;
    for (const LocalFile& file : model_files(folder_.string())) all += file.name + " ";
    return all;
  }
  CreatePlan plan(const std::string& modelfile) {
    return plan_create(store::parse_modelfile(modelfile), folder_.string(),
                       [this](const std::string& line) { warnings_ += line + "\n"; });
  }

  TestFolder temporary_;
  const fs::path outside_ = temporary_.path();
  const fs::path folder_ = outside_ / "model";
  std::string warnings_;
};

TEST_F(CreatePlanTest, FindsTheFirstKindOfWeightsInAFolder) {
  EXPECT_THROW(model_files(folder_.string()), Error);
  write("other.bin");
  write("config.json");
  EXPECT_EQ(names(), "other.bin config.json ");
  write("b.gguf");
  write("a.gguf");
  EXPECT_EQ(names(), "a.gguf b.gguf ");  // GGUF files need no description
  write("consolidated.00.pth");
  EXPECT_EQ(names(), "consolidated.00.pth config.json ");
  write("pytorch_model.bin");
  EXPECT_EQ(names(), "pytorch_model.bin config.json ");
  write("consolidated.safetensors");
  EXPECT_EQ(names(), "consolidated.safetensors config.json ");
  write("model-1.safetensors");
  write("part/model-2.safetensors");
  write("part/deeper/model-3.safetensors");
  write("1_Pooling/config.json");
  write("tokenizer.model");
  write("chat_template.jinja");
  write("vocab.txt");
  write("README.md");
  EXPECT_EQ(names(),
            "model-1.safetensors part/model-2.safetensors config.json 1_Pooling/config.json "
            "chat_template.jinja README.md tokenizer.model vocab.txt ");
}

TEST_F(CreatePlanTest, RejectsLinksOutOfTheFolder) {
  std::ofstream(outside_ / "secret.gguf") << "x";
  fs::create_symlink(outside_ / "secret.gguf", folder_ / "a.gguf");
  try {
    model_files(folder_.string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "insecure path: " + (folder_ / "a.gguf").string() +
                                " is a link out of the folder; name its target in a "
                                "Modelfile, or copy the file");
  }
  EXPECT_EQ(model_files(folder_.string(), Links::kAnywhere).size(), 1u) << "nothing is sent";
  fs::remove(folder_ / "a.gguf");
  write("files/b.gguf");
  fs::create_symlink("files/b.gguf", folder_ / "a.gguf");
  EXPECT_EQ(names(), "a.gguf ");
}

TEST_F(CreatePlanTest, ResolvesPathsRelativeToTheModelfile) {
  EXPECT_EQ(expanded_path("a.gguf", "/m"), "/m/a.gguf");
  EXPECT_EQ(expanded_path("./x/../a.gguf", "/m"), "/m/a.gguf");
  EXPECT_EQ(expanded_path("/a.gguf", "/m"), "/a.gguf");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(expanded_path("~", "/m"), "/home/me");
  EXPECT_EQ(expanded_path("~/a.gguf", "/m"), "/home/me/a.gguf");
  EXPECT_EQ(expanded_path("~root/a.gguf", "/m"), "/root/a.gguf");
  EXPECT_THROW(expanded_path("~nobody-of-that-name/a", "/m"), Error);
}

TEST_F(CreatePlanTest, BuildsTheRequestFromTheModelfile) {
  const CreatePlan made = plan(
      "FROM base\nSYSTEM be kind\nTEMPLATE \"{{ .Prompt }}\"\nPARAMETER stop a\nPARAMETER stop b\n"
      "PARAMETER temperature 0.5\nPARAMETER mirostat 1\nLICENSE MIT\nLICENSE BSD\nMESSAGE user "
      "hi\nMESSAGE assistant ho\n"
      "RENDERER r\nPARSER p\nREQUIRES 0.14.0\n");
  EXPECT_EQ(made.request,
            R"({"from":"base","template":"{{ .Prompt }}","system":"be kind","renderer":"r",)"
            R"("parser":"p","requires":"0.14.0","license":["MIT","BSD"],)"
            R"("messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}],)"
            R"("parameters":{"stop":["a","b"],"temperature":0.5}})");
  EXPECT_TRUE(made.files.empty());
  EXPECT_NE(warnings_.find("mirostat"), std::string::npos);
}

TEST_F(CreatePlanTest, ListsFilesByTheirNames) {
  write("a.gguf");
  write("mmproj.gguf");
  write("lora/l.gguf");
  write("draft.gguf");
  const CreatePlan made =
      plan("FROM ./a.gguf\nFROM mmproj.gguf\nADAPTER ./lora\nDRAFT ./draft.gguf\n");
  const auto at = [this](const char* name) { return (folder_ / name).string(); };
  EXPECT_EQ(made.files,
            (std::vector<LocalFile>{{"a.gguf", at("a.gguf")}, {"mmproj.gguf", at("mmproj.gguf")}}));
  EXPECT_EQ(made.adapters, (std::vector<LocalFile>{{"l.gguf", at("lora/l.gguf")}}));
  EXPECT_EQ(made.draft_files, (std::vector<LocalFile>{{"draft.gguf", at("draft.gguf")}}));
  EXPECT_EQ(made.request, "{}");
}

TEST_F(CreatePlanTest, TheScaleOfAnAdapterIsFinite) {
  write("l.gguf");
  EXPECT_EQ(plan("FROM base\nADAPTER ./l.gguf:0.5\n").adapters.at(0).scale, 0.5f);
  for (const char* scale : {"nan", "inf", "-inf", "1e99", ""})
    EXPECT_THROW(plan(std::string("FROM base\nADAPTER ./l.gguf:") + scale + "\n"), Error) << scale;
}

TEST_F(CreatePlanTest, AnAdapterIsItsFolderWithoutTheCheckpointsBelow) {
  for (const char* folder : {"lora/", "lora/checkpoint-500/"})
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
      write(std::string(folder) + name);
  write("lora/checkpoint-500/trainer_state.json");
  std::string names;
  for (const LocalFile& file : plan("FROM base\nADAPTER ./lora\n").adapters)
    names += file.name + " ";
  EXPECT_EQ(names, "adapter_model.safetensors adapter_config.json ");
}

TEST_F(CreatePlanTest, ADraftIsAFileOrTheNameOfAModel) {
  EXPECT_EQ(plan("FROM base\nDRAFT small:1b\n").request, R"({"from":"base","draft":"small:1b"})");
  EXPECT_THROW(plan("FROM base\nDRAFT ./none.gguf\n"), Error);
}

TEST_F(CreatePlanTest, AddsTheOtherFilesOfASplit) {
  for (const char* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf",
        "m-00001-of-00002.gguf", "other-00002-of-00003.gguf"})
    write(name);
  const CreatePlan made = plan("FROM ./m-00001-of-00003.gguf\n");
  ASSERT_EQ(made.files.size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(made.files[i].name, "m-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  EXPECT_EQ(plan("FROM ./m-00002-of-00003.gguf\n").files.size(), 1u)
      << "the server reports the error";
}

TEST_F(CreatePlanTest, DistinguishesPathsFromNames) {
  for (const char* word :
       {"./m", "../m", "/m", "~/m", "m.gguf", "a/m.gguf", "./a:m.gguf", ".", ".."})
    EXPECT_TRUE(is_model_path(word)) << word;
  for (const char* word :
       {"m", "m:tag", "a/m", "hf.co/a/m", "hf.co/a/m:Q4_K_M", "hf.co/a/m:m-Q4.gguf", "m:m.gguf"})
    EXPECT_FALSE(is_model_path(word)) << word;
  write("m:m.gguf");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_TRUE(is_model_path("m:m.gguf"));
  fs::current_path(before);
}

TEST_F(CreatePlanTest, DerivesAModelNameFromAPath) {
  write("My Model.Q4_K.gguf");
  const auto name = [&](const std::string& word) { return kept_name((folder_ / word).string()); };
  const std::string kept = name("My Model.Q4_K.gguf");
  EXPECT_TRUE(kept.starts_with("file/My-Model.Q4_K:")) << kept;
  EXPECT_TRUE(store::parse_name(kept)) << kept;
  EXPECT_EQ(kept, name("../model/My Model.Q4_K.gguf"));
  EXPECT_NE(kept, name("other/My Model.Q4_K.gguf"));
  for (const char* word : {".", "..", "/", "---.gguf", "模型.gguf"})
    EXPECT_TRUE(store::parse_name(kept_name(word))) << word << " " << kept_name(word);
  EXPECT_TRUE(store::parse_name(name(std::string(200, 'x') + ".gguf")));
}

TEST_F(CreatePlanTest, LeavesAnAddressToTheServer) {
  const std::string url = "https://h/a/My Model.gguf?download=true";
  EXPECT_FALSE(is_model_path(url));
  const CreatePlan made = plan("FROM " + url + "\n");
  EXPECT_TRUE(made.files.empty());
  EXPECT_EQ(Json::parse(made.request)["from"], url);
  const std::string kept = kept_name_of_address(url);
  EXPECT_TRUE(kept.starts_with("web/My-Model:")) << kept;
  EXPECT_TRUE(store::parse_name(kept)) << kept;
  EXPECT_NE(kept, kept_name_of_address("https://other/a/My Model.gguf?download=true"));
}

TEST_F(CreatePlanTest, RejectsMissingFilesAndConflicts) {
  write("a.gguf");
  write("x/a.gguf");
  EXPECT_THROW(plan("FROM ./none.gguf\n"), Error);
  EXPECT_THROW(plan("FROM base\nADAPTER ./none\n"), Error);
  EXPECT_THROW(plan("FROM ./a.gguf\nDRAFT ./a.gguf\n"), Error);
  EXPECT_THROW(plan("FROM ./a.gguf\nFROM ./x/a.gguf\n"), Error);
  EXPECT_EQ(plan("FROM a-name\n").request, R"({"from":"a-name"})");
}

TEST_F(CreatePlanTest, AcceptsOnlyAddressesOfFilesAndModels) {
  for (const char* text : {"m", "./m.gguf", "https://h/x.gguf", "https://hf.co/me/m:Q8_0", ""})
    EXPECT_NO_THROW(check_address(text)) << text;
  for (const char* text : {"file:///etc/passwd", "ftp://h/x.gguf", "https://h/x.bin?", "https://",
                           "https://me:secret@h/x.gguf"})
    EXPECT_THROW(check_address(text), Error) << text;
}

}  // namespace
}  // namespace billow::cli
