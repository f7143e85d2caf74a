#include "registry/client.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "registry/fake_registry.h"
#include "store/folder.h"
#include "store/sample_model.h"

namespace billow::registry {
namespace {

using std::chrono::milliseconds;

// Weights must begin like a GGUF file.
constexpr const char* kWeights = "GGUF weights";

std::string random_bytes(size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes.replace(0, 4, "GGUF");
}

ClientOptions test_options() {
  ::setenv("no_proxy", "*", 1);
  ClientOptions options;
  options.transport.stall_timeout = std::chrono::minutes(1);
  options.download.first_pause = options.upload.first_pause = milliseconds(1);
  options.download.next_part_pause = milliseconds(0);
  options.download.sizes = options.upload.sizes = {.min = 50'000, .max = 1'000'000};
  options.report_interval = milliseconds(1);
  return options;
}

// A store and its client.
struct Place {
  TestFolder folder;
  store::Store store{folder.path()};
  Client client{store, test_options()};

  // pull() and push() return the last status of the transfer, or its error.
  std::string pull(
      const store::Name& name, const Listener& listener = [](const Step&) {},
      std::stop_token stop = {}) {
    return answer_text([&](const Listener& hears) { client.pull(name, true, hears, stop); },
                       listener);
  }
  std::string push(const store::Name& name, const Listener& listener = [](const Step&) {}) {
    return answer_text([&](const Listener& hears) { client.push(name, true, hears); }, listener);
  }
  static std::string answer_text(const std::function<void(const Listener&)>& work,
                                 const Listener& listener) {
    std::string last;
    try {
      work([&](const Step& step) {
        last = step.status;
        listener(step);
      });
    } catch (const Error& error) {
      return error.what();
    }
    return last;
  }
};

// Like store::add_sample(), with a small config.
store::Manifest add_small(store::Store& store, const std::string& weights) {
  store::Manifest manifest;
  manifest.layers.push_back(store.add_layer(store::kModelLayer, weights));
  manifest.layers.push_back(store.add_layer(store::kSystemLayer, "shared by all"));
  manifest.config = store.add_layer(store::kConfigType, to_text(store::Config{}));
  return manifest;
}

class ClientTest : public testing::Test {
 protected:
  // Puts a model with these weights into the registry.
  store::Manifest serve(const std::string& repository, const std::string& weights) {
    TestFolder folder;
    store::Store store(folder.path());
    const store::Manifest manifest = add_small(store, weights);
    for (const store::Digest& digest : manifest.digests())
      registry_.put_blob(repository, store.read_blob(digest));
    registry_.put_manifest(repository, to_text(manifest));
    return manifest;
  }
  // Returns the sent bytes of blobs. A registry counts a response after the client has it.
  size_t n_sent() const {
    EXPECT_TRUE(becomes_true([&] { return registry_.n_open == 0; }));
    return registry_.n_sent;
  }
  static bool becomes_true(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  FakeRegistry registry_;
  Place here_;
  Place there_;
};

TEST_F(ClientTest, APushedModelComesBackByteForByte) {
  const std::string weights = random_bytes(1'000'003, 1);
  const store::Name name = registry_.name();
  here_.store.put(name, add_small(here_.store, weights));
  std::vector<std::string> steps;
  const Listener notes = [&](const Step& step) {
    if (steps.empty() || steps.back() != step.status) steps.push_back(step.status);
    EXPECT_TRUE(!step.layer || step.n_completed <= step.layer->size_bytes);
  };
  EXPECT_EQ(here_.push(name, notes), "success");
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[0], "retrieving manifest");
  EXPECT_EQ(steps[1], "pushing " + store::digest_of(weights).hex().substr(0, 12));
  EXPECT_EQ(steps[4], "pushing manifest");
  steps.clear();
  EXPECT_EQ(there_.pull(name, notes), "success");
  ASSERT_EQ(steps.size(), 7u);
  EXPECT_EQ(steps[0], "pulling manifest");
  EXPECT_EQ(steps[1], "pulling " + store::digest_of(weights).hex().substr(0, 12));
  EXPECT_EQ(steps[4], "verifying sha256 digest");
  EXPECT_EQ(steps[5], "writing manifest");
  EXPECT_EQ(there_.store.manifest_text(name), here_.store.manifest_text(name));
  EXPECT_EQ(store::children(there_.folder.path() + "/blobs"),
            store::children(here_.folder.path() + "/blobs"));
  EXPECT_EQ(store::unsound_model(there_.store), "");
  const size_t n_before = n_sent();
  const size_t n_received = registry_.n_received;
  EXPECT_EQ(there_.pull(name), "success");
  EXPECT_EQ(here_.push(name), "success");
  EXPECT_EQ(n_sent(), n_before) << "stored blobs are not fetched";
  EXPECT_EQ(registry_.n_received, n_received) << "blobs of the registry are not sent";
}

TEST_F(ClientTest, KeepsTheManifestUnchanged) {
  const store::Manifest manifest = serve("a/m", kWeights);
  std::string text = to_text(manifest);
  text.insert(1, " \"annotations\" : {\"x\":1},");
  registry_.put_manifest("a/m", text);
  EXPECT_EQ(here_.pull(registry_.name()), "success");
  EXPECT_EQ(here_.store.manifest_text(registry_.name()), text);
  EXPECT_EQ(here_.store.find(registry_.name())->digest, store::digest_of(text));
}

TEST_F(ClientTest, ReportsMissingModels) {
  EXPECT_EQ(here_.pull(registry_.name("a/none")), "pull model manifest: file does not exist");
  EXPECT_EQ(here_.push(registry_.name("a/none")),
            "model '" + registry_.host() + "/a/none:latest' not found");
  EXPECT_FALSE(store::is_folder(here_.folder.path() + "/manifests"));
}

TEST_F(ClientTest, AFailedPullKeepsTheStoredModelAndReportsThat) {
  const std::string kept = "; the model of the store was kept";
  const store::Name name = registry_.name();
  here_.store.put(name, add_small(here_.store, kWeights));
  const std::string before = here_.store.manifest_text(name).value();
  EXPECT_EQ(here_.pull(name), "pull model manifest: file does not exist" + kept);
  serve("a/m", random_bytes(200'000, 2));
  registry_.faults.damages = true;
  const std::string why = here_.pull(name);
  EXPECT_TRUE(why.starts_with("digest mismatch") && why.ends_with(kept)) << why;
  EXPECT_EQ(here_.store.manifest_text(name), before);
  EXPECT_EQ(store::unsound_model(here_.store), "");
  // A model that lacks a blob does not count as stored.
  std::filesystem::remove(here_.store.blob_path(store::digest_of(kWeights)));
  EXPECT_TRUE(here_.pull(name).starts_with("digest mismatch"));
  EXPECT_FALSE(here_.pull(name).ends_with(kept));
}

TEST_F(ClientTest, PullOfAStoredModelFailsIfTheRegistryIsUnreachable) {
  auto gone = std::make_unique<FakeRegistry>();
  const store::Name name = gone->name();
  here_.store.put(name, add_small(here_.store, kWeights));
  gone.reset();
  const std::string why = here_.pull(name);
  EXPECT_TRUE(why.ends_with("; the model of the store was kept")) << why;
  EXPECT_TRUE(here_.store.find(name));
}

TEST_F(ClientTest, PullUsesTheStoredSpellingOfAName) {
  serve("a/m", kWeights);
  EXPECT_EQ(here_.pull(registry_.name("A/M")), "pull model manifest: file does not exist");
  EXPECT_EQ(here_.pull(registry_.name("a/m")), "success");
  EXPECT_EQ(here_.pull(registry_.name("A/M")), "success");
  EXPECT_EQ(here_.store.list().size(), 1u);
}

TEST_F(ClientTest, RefusesMalformedManifests) {
  for (const char* text :
       {"<html>", "{}", R"({"schemaVersion":2,"config":{"digest":"../../x"},"layers":[]})"}) {
    registry_.put_manifest("a/m", text);
    EXPECT_TRUE(here_.pull(registry_.name()).starts_with("pull model manifest: ")) << text;
  }
  store::Manifest manifest = serve("a/m", kWeights);
  manifest.layers[0].media_type = "application/vnd.ollama.image.tensor";
  registry_.put_manifest("a/m", to_text(manifest));
  EXPECT_TRUE(here_.pull(registry_.name()).starts_with("this model requires MLX support"));
  EXPECT_EQ(n_sent(), 0u);
}

TEST_F(ClientTest, ChecksDiskSpaceBeforeAnyDownload) {
  store::Manifest manifest = serve("a/m", kWeights);
  manifest.layers[1].size_bytes = uint64_t{1} << 60;
  registry_.put_manifest("a/m", to_text(manifest));
  const std::string why = here_.pull(registry_.name());
  EXPECT_NE(why.find("are needed, but the disk has"), std::string::npos) << why;
  EXPECT_EQ(registry_.n_requests, 0);
  try {
    here_.client.pull(registry_.name(), true, [](const Step&) {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo) << "the request itself is not wrong";
  }
}

TEST_F(ClientTest, FetchesADamagedBlobAgain) {
  const std::string weights = random_bytes(200'000, 2);
  serve("a/m", weights);
  ASSERT_EQ(here_.pull(registry_.name()), "success");
  const std::string path = here_.store.blob_path(store::digest_of(weights));
  for (const size_t n_bytes : {size_t{0}, size_t{100'000}, size_t{300'000}}) {
    std::filesystem::resize_file(path, n_bytes);
    EXPECT_EQ(here_.pull(registry_.name()), "success");
    EXPECT_TRUE(read_test_file(path) == weights) << n_bytes;
  }
}

TEST_F(ClientTest, AModelWithADamagedBlobDoesNotCountAsStored) {
  here_.store.put(registry_.name(), add_small(here_.store, kWeights));
  EXPECT_TRUE(here_.pull(registry_.name()).ends_with("; the model of the store was kept"));
  std::filesystem::resize_file(here_.store.blob_path(store::digest_of(kWeights)), 5);
  EXPECT_EQ(here_.pull(registry_.name()), "pull model manifest: file does not exist");
}

// Then the size in the manifest is wrong.
TEST_F(ClientTest, ABlobWithTheRightDigestIsNotFetchedAgain) {
  store::Manifest manifest = serve("a/m", kWeights);
  ASSERT_EQ(here_.pull(registry_.name()), "success");
  manifest.layers[0].size_bytes += 1;
  registry_.put_manifest("a/m", to_text(manifest));
  const size_t n_before = n_sent();
  EXPECT_EQ(here_.pull(registry_.name()), "success");
  EXPECT_EQ(n_sent(), n_before);
  EXPECT_EQ(read_test_file(here_.store.blob_path(store::digest_of(kWeights))), kWeights);
}

// The first version of a model stays if the second version is broken.
class BrokenUpdate : public ClientTest {
 protected:
  BrokenUpdate() {
    serve("a/m", kWeights);
    EXPECT_EQ(here_.pull(registry_.name()), "success");
    before_ = here_.store.manifest_text(registry_.name());
  }
  // Returns the error of the second pull.
  std::string pull(const std::string& weights, const std::string& config) {
    TestFolder folder;
    store::Store store(folder.path());
    store::Manifest manifest = add_small(store, weights);
    for (int i = 0; i < 5; ++i)
      manifest.layers.push_back(store.add_layer(store::kLicenseLayer, "text " + std::to_string(i)));
    manifest.config = store.add_layer(store::kConfigType, config);
    for (const store::Digest& digest : manifest.digests())
      registry_.put_blob("a/m", store.read_blob(digest));
    registry_.put_manifest("a/m", to_text(manifest));
    const std::string why = here_.pull(registry_.name());
    EXPECT_EQ(here_.store.manifest_text(registry_.name()), before_);
    EXPECT_EQ(store::unsound_model(here_.store), "");
    return why;
  }

  std::optional<std::string> before_;
};

TEST_F(BrokenUpdate, ConfigThatIsNotJson) {
  const std::string config = "the config of " + registry_.host() + "/a/m:latest: ";
  for (const char* text : {"{", R"({"model_families":"llama"})"}) {
    const std::string why = pull(random_bytes(100, 3), text);
    EXPECT_TRUE(why.starts_with(config)) << why;
    EXPECT_TRUE(why.ends_with("; the model of the store was kept")) << why;
  }
}

TEST_F(BrokenUpdate, ConfigThatIsTooLarge) {
  const std::string why = pull(kWeights, std::string(store::kMaxConfigBytes + 1, ' '));
  EXPECT_TRUE(why.starts_with("pull model manifest: its config has more than")) << why;
}

TEST_F(BrokenUpdate, WeightsThatAreNotGguf) {
  const std::string why = pull("<html>", "{}");
  EXPECT_TRUE(why.starts_with("the weights of " + registry_.host() + "/a/m:latest are not")) << why;
}

TEST_F(BrokenUpdate, BrokenConfigEndsThePullBeforeTheWeightsArrive) {
  registry_.faults.holds_blobs = true;  // all but the only byte of the config
  const std::string why = pull(random_bytes(1'000'000, 4), "[");
  EXPECT_TRUE(why.starts_with("the config of ")) << why;
}

TEST_F(ClientTest, WrongBytesNeverBecomeAModel) {
  serve("a/m", random_bytes(200'000, 2));
  registry_.faults.damages = true;
  EXPECT_TRUE(here_.pull(registry_.name()).starts_with("digest mismatch, file must be downloaded"));
  EXPECT_FALSE(here_.store.find(registry_.name()));
  registry_.faults.damages = false;
  EXPECT_EQ(here_.pull(registry_.name()), "success");
  EXPECT_EQ(store::unsound_model(here_.store), "");
}

TEST_F(ClientTest, TwoPullsShareOneDownload) {
  const std::string weights = random_bytes(1'000'000, 3);
  serve("a/m", weights);
  serve("a/n", weights);
  registry_.faults.holds_blobs = true;
  std::atomic<uint64_t> n_seen[2] = {0, 0};
  const auto pull = [&](size_t i) {
    return here_.pull(registry_.name(i == 0 ? "a/m" : "a/n"), [&, i](const Step& step) {
      if (step.layer && step.layer->size_bytes == weights.size()) n_seen[i] = step.n_completed;
    });
  };
  auto first = std::async(std::launch::async, pull, 0);
  auto second = std::async(std::launch::async, pull, 1);
  EXPECT_TRUE(becomes_true([&] { return n_seen[0] >= 400'000 && n_seen[1] >= 400'000; }));
  registry_.faults.holds_blobs = false;
  EXPECT_EQ(first.get(), "success");
  EXPECT_EQ(second.get(), "success");
  EXPECT_LT(n_sent(), weights.size() + 10'000);
  EXPECT_EQ(store::unsound_model(here_.store), "");
}

TEST_F(ClientTest, ASharedDownloadContinuesAfterItsStarterLeaves) {
  serve("a/m", random_bytes(1'000'000, 4));
  registry_.faults.holds_blobs = true;
  std::stop_source leaves;
  std::atomic<uint64_t> n_first{0};
  std::atomic<uint64_t> n_second{0};
  auto first = std::async(std::launch::async, [&] {
    return here_.pull(
        registry_.name(), [&](const Step& step) { n_first = step.n_completed; },
        leaves.get_token());
  });
  EXPECT_TRUE(becomes_true([&] { return n_first >= 400'000; }));
  auto second = std::async(std::launch::async, [&] {
    return here_.pull(registry_.name(), [&](const Step& step) { n_second = step.n_completed; });
  });
  EXPECT_TRUE(becomes_true([&] { return n_second >= 400'000; }));
  leaves.request_stop();
  EXPECT_EQ(first.get(), "the download was cancelled");
  registry_.faults.holds_blobs = false;
  EXPECT_EQ(second.get(), "success");
  EXPECT_LT(n_sent(), 1'010'000u);
}

TEST_F(ClientTest, ACancelledDownloadCanResumeLater) {
  serve("a/m", random_bytes(1'000'000, 5));
  registry_.faults.holds_blobs = true;
  std::stop_source leaves;
  EXPECT_EQ(here_.pull(
                registry_.name(),
                [&](const Step& step) {
                  if (step.n_completed >= 400'000) leaves.request_stop();
                },
                leaves.get_token()),
            "the download was cancelled");
  EXPECT_FALSE(here_.store.find(registry_.name()));
  EXPECT_GT(registry_.n_requests, 0);
  // An answer that is released before the server sees the end of its connection counts as sent.
  EXPECT_TRUE(becomes_true([&] { return registry_.n_open == 0; }));
  registry_.faults.holds_blobs = false;
  const size_t n_before = n_sent();
  EXPECT_EQ(here_.pull(registry_.name()), "success");
  EXPECT_LT(n_sent() - n_before, 700'000u) << "only the rest was fetched";
  EXPECT_EQ(store::unsound_model(here_.store), "");
}

TEST_F(ClientTest, AListenerThatThrowsEndsThePull) {
  serve("a/m", kWeights);
  struct Gone {};
  EXPECT_THROW(here_.client.pull(registry_.name(), true,
                                 [](const Step& step) {
                                   if (step.layer) throw Gone();
                                 }),
               Gone);
}

TEST_F(ClientTest, AFailedSharedDownloadIsRetriedFromTheOwnRegistry) {
  FakeRegistry other;
  const std::string weights = random_bytes(1'000'000, 6);
  const store::Manifest manifest = serve("a/m", weights);
  other.put_manifest("a/m", to_text(manifest));
  for (const store::Digest& digest : manifest.digests())
    other.put_blob("a/m", registry_.blob("a/m", digest.text()));
  other.faults.holds_blobs = true;
  std::atomic<uint64_t> n_first{0};
  std::atomic<uint64_t> n_second{0};
  auto first = std::async(std::launch::async, [&] {
    return here_.pull(other.name(), [&](const Step& step) { n_first = step.n_completed; });
  });
  EXPECT_TRUE(becomes_true([&] { return n_first >= 400'000; }));
  auto second = std::async(std::launch::async, [&] {
    return here_.pull(registry_.name(), [&](const Step& step) { n_second = step.n_completed; });
  });
  EXPECT_TRUE(becomes_true([&] { return n_second >= 400'000; }));
  // Now each part has a wrong byte. The first pull fails, and the second asks its own registry.
  other.faults.breaks_parts = true;
  other.faults.holds_blobs = false;
  EXPECT_TRUE(first.get().starts_with("digest mismatch"));
  EXPECT_EQ(second.get(), "success");
  EXPECT_EQ(store::unsound_model(here_.store), "");
}

TEST_F(ClientTest, ABlobOfAnotherRepositoryIsMounted) {
  const std::string weights = random_bytes(300'000, 7);
  serve("a/base", weights);
  EXPECT_EQ(here_.pull(registry_.name("a/base")), "success");
  store::Manifest manifest = here_.store.find(registry_.name("a/base"))->manifest;
  manifest.layers[0].from = registry_.host() + "/a/base:latest";
  here_.store.put(registry_.name("b/derived"), manifest);
  EXPECT_EQ(here_.push(registry_.name("b/derived")), "success");
  EXPECT_EQ(registry_.n_mounted, 1);
  EXPECT_LT(registry_.n_received, 10'000u);
  EXPECT_EQ(there_.pull(registry_.name("b/derived")), "success");
}

TEST_F(ClientTest, ResumesAnUploadThatWasCutOff) {
  const std::string weights = random_bytes(1'000'000, 8);
  here_.store.put(registry_.name(), add_small(here_.store, weights));
  registry_.faults.n_cut_uploads = 3;
  EXPECT_EQ(here_.push(registry_.name()), "success");
  EXPECT_EQ(registry_.faults.n_cut_uploads, 0);
  EXPECT_LT(registry_.n_received, weights.size() + 1000) << "no byte is received twice";
  EXPECT_EQ(there_.pull(registry_.name()), "success");
}

TEST_F(ClientTest, SendsPartsToTheAddressOfARedirect) {
  const std::string weights = random_bytes(130'000, 9);
  here_.store.put(registry_.name(), add_small(here_.store, weights));
  registry_.faults.redirects = true;
  EXPECT_EQ(here_.push(registry_.name()), "success");
  EXPECT_EQ(there_.pull(registry_.name()), "success");
  bool has_three_parts = false;
  for (const std::string& etag : registry_.etags) has_three_parts |= etag.ends_with("-3");
  EXPECT_TRUE(has_three_parts);
}

TEST_F(ClientTest, SendsRedirectedPartsAgainThatTheRegistryLost) {
  const std::string weights = random_bytes(130'000, 9);
  here_.store.put(registry_.name(), add_small(here_.store, weights));
  registry_.faults.redirects = true;
  registry_.faults.n_lost_bytes = 30'000;  // the third part
  EXPECT_EQ(here_.push(registry_.name()), "success");
  EXPECT_EQ(registry_.faults.n_lost_bytes, 0);
  EXPECT_EQ(there_.pull(registry_.name()), "success");
  for (const std::string& etag : registry_.etags)
    EXPECT_FALSE(etag.ends_with("-4")) << "a lost part counts twice";
}

TEST_F(ClientTest, PushesAndPullsEmptyBlobs) {
  store::Manifest manifest = add_small(here_.store, kWeights);
  manifest.layers.push_back(here_.store.add_layer(store::kLicenseLayer, ""));
  here_.store.put(registry_.name(), manifest);
  EXPECT_EQ(here_.push(registry_.name()), "success");
  EXPECT_EQ(there_.pull(registry_.name()), "success");
  EXPECT_EQ(store::unsound_model(there_.store), "");
}

TEST_F(ClientTest, AMirrorReplacesTheDefaultRegistry) {
  serve("library/m", kWeights);
  ClientOptions options = test_options();
  options.mirror = "http://" + registry_.host();
  Client client(here_.store, options);
  EXPECT_EQ(display_name(client.pull(store::named("m"), false, [](const Step&) {})), "m:latest");
  EXPECT_EQ(store::sample_weights(here_.store, "m"), kWeights);
}

}  // namespace
}  // namespace billow::registry
