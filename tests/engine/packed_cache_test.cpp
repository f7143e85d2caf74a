// Tests that packed models load from the cache with the same bits. The engine never uses a cache
// file that is damaged, truncated or made from other weights.
#include "engine/packed_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/test_folder.h"
#include "engine/embed/load.h"
#include "engine/tiny_embedder.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

namespace fs = std::filesystem;

class PackedCacheTest : public testing::Test {
 protected:
  PackedCacheTest() {
    write_model({.architecture = "llama", .type = quant::Type::kQ4_K, .seed = 1});
  }

  void write_model(const reference::TinyModelOptions& options) {
    const std::string path = model_ + ".new";  // a new inode, as a pull creates
    reference::write_tiny_model(options, path);
    fs::rename(path, model_);
  }
  EngineOptions options(const kernels::KernelTable* kernels = nullptr) const {
    return {.packed_cache = {.folder = {cache_, uint64_t{1} << 30}, .min_bytes = 0},
            .kernels = kernels};
  }
  // Returns the logits of a new engine. Afterwards the packed form is on disk.
  std::vector<float> logits(const kernels::KernelTable* kernels = nullptr) {
    Engine engine(model_, options(kernels));
    engine.wait_for_packed_cache();
    return logits_of(engine, random_tokens(40, 300, 7));
  }
  std::vector<float> logits_without_cache(const kernels::KernelTable* kernels = nullptr) const {
    Engine engine(model_, {.kernels = kernels});
    return logits_of(engine, random_tokens(40, 300, 7));
  }
  std::vector<std::string> packed_files() const {
    std::vector<std::string> files;
    if (!fs::exists(cache_)) return files;
    for (const auto& entry : fs::directory_iterator(cache_))
      if (entry.path().extension() == ".packed") files.push_back(entry.path().string());
    return files;
  }
  std::string only_file() const {
    const std::vector<std::string> files = packed_files();
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files[0];
  }
  static ino_t inode_of(const std::string& path) {
    struct stat status{};
    ::stat(path.c_str(), &status);
    return status.st_ino;
  }
  // Inverts one byte in place, as a bad disk could do before a restart of the machine.
  static void damage(const std::string& path, size_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<long>(at));
    const int byte = file.get();
    file.seekp(static_cast<long>(at));
    file.put(static_cast<char>(~byte));
  }

  TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  const std::string model_ = folder_ + "/model.gguf";
  const std::string cache_ = folder_ + "/cache";
};

TEST_F(PackedCacheTest, ModelLoadsFromTheCacheWithTheSameBits) {
  const std::vector<float> expected = logits_without_cache();
  EXPECT_TRUE(packed_files().empty());
  EXPECT_EQ(logits(), expected);
  const std::string file = only_file();
  const ino_t inode = inode_of(file);
  EXPECT_EQ(logits(), expected);
  EXPECT_EQ(inode_of(file), inode) << "packed again";
  fs::remove(file + ".checked");  // simulates a restart of the machine
  EXPECT_EQ(logits(), expected);
  EXPECT_EQ(inode_of(file), inode) << "packed again";
  EXPECT_TRUE(fs::exists(file + ".checked"));
}

TEST_F(PackedCacheTest, ReadsWeightsFromTheCache) {
  const std::vector<float> expected = logits();
  // The engine does not verify a file that is marked as checked, so the damage changes the weights.
  const std::string file = only_file();
  for (size_t at = 4096; at < 5000; ++at) damage(file, at);
  const CacheFolder folder({cache_, 1});
  const std::string name = fs::path(file).filename().string();
  folder.set_checked(name, *folder.open(name));
  EXPECT_NE(logits(), expected);
}

TEST_F(PackedCacheTest, EachKernelTableHasItsOwnFile) {
  const auto tables = usable_tables();
  std::vector<std::vector<float>> expected;
  for (const kernels::KernelTable* table : tables) expected.push_back(logits_without_cache(table));
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < tables.size(); ++i)
      EXPECT_EQ(logits(tables[i]), expected[i]) << tables[i]->name;
  EXPECT_EQ(packed_files().size(), tables.size());
}

TEST_F(PackedCacheTest, ChangedModelAtTheSamePathReplacesTheFile) {
  logits();
  write_model({.architecture = "llama", .type = quant::Type::kQ4_K, .seed = 2});
  const std::vector<float> expected = logits_without_cache();
  EXPECT_EQ(logits(), expected);
  only_file();
  EXPECT_EQ(logits(), expected);
}

TEST_F(PackedCacheTest, PacksAgainIfTheFileIsDamaged) {
  const std::vector<float> expected = logits();
  const std::string file = only_file();
  const size_t size = fs::file_size(file);
  std::mt19937 random(5);
  std::vector<size_t> places = {0, size - 1, size - 33, size - 40, size - 2000};
  for (int i = 0; i < 40; ++i) places.push_back(random() % size);
  for (const size_t place : places) {
    // The times of a file have the resolution of the system's tick, which is 10 ms at most.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    damage(file, place);
    EXPECT_EQ(logits(), expected) << "byte " << place << " of " << size;
    EXPECT_EQ(logits(), expected);
  }
}

TEST_F(PackedCacheTest, PacksAgainIfTheFileIsTruncated) {
  const std::vector<float> expected = logits();
  const std::string file = only_file();
  const size_t size = fs::file_size(file);
  std::mt19937 random(6);
  std::vector<size_t> sizes = {0, 1, 31, size - 1, size - 32, size / 2};
  for (int i = 0; i < 20; ++i) sizes.push_back(random() % size);
  for (const size_t n : sizes) {
    fs::resize_file(file, n);
    EXPECT_EQ(logits(), expected) << n << " bytes of " << size;
    EXPECT_EQ(fs::file_size(file), size);
  }
}

TEST_F(PackedCacheTest, ProcessKilledDuringWriteLeavesNoFile) {
  const std::vector<float> expected = logits_without_cache();
  for (const int microseconds : {0, 200, 1000, 3000, 10000, 30000}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Engine engine(model_, options());
      ::pause();
    }
    ::usleep(static_cast<useconds_t>(20000 + microseconds));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(logits(), expected) << microseconds;
    for (const auto& entry : fs::directory_iterator(cache_))
      EXPECT_NE(entry.path().extension(), ".writing");
    fs::remove_all(cache_);
  }
}

TEST_F(PackedCacheTest, RemovesFilesOfDeletedModels) {
  logits();
  const std::string other = folder_ + "/other.gguf";
  fs::rename(model_, other);
  {
    Engine engine(other, options());
    engine.wait_for_packed_cache();
  }
  only_file();
}

TEST_F(PackedCacheTest, DoesNotCacheSmallOrInMemoryModels) {
  EngineOptions wanted = options();
  wanted.packed_cache.min_bytes = uint64_t{1} << 30;
  {
    Engine engine(model_, wanted);
    engine.wait_for_packed_cache();
  }
  TinyEngine tiny({.architecture = "llama", .type = quant::Type::kQ4_K}, options());
  tiny.engine.wait_for_packed_cache();
  EXPECT_TRUE(packed_files().empty());
}

TEST_F(PackedCacheTest, UnwritableFolderIsNoError) {
  std::ofstream(cache_) << "a file";
  EXPECT_EQ(logits(), logits_without_cache());
}

TEST_F(PackedCacheTest, EmbeddingModelLoadsFromTheCache) {
  const std::string path = folder_ + "/encoder.gguf";
  reference::write_tiny_encoder({.type = quant::Type::kQ8_0}, path);
  // A background thread writes the packed form while the model exists.
  const auto vector_with = [&](const EngineOptions& wanted) {
    const std::unique_ptr<EmbedModel> model = load_embed_model(path, wanted);
    for (int i = 0; wanted.packed_cache.folder.max_bytes != 0 && packed_files().empty(); ++i) {
      if (i == 20000) ADD_FAILURE() << "no packed file was written";
      if (i >= 20000) break;
      ::usleep(1000);
    }
    return vector_of(*model, random_text(20, 1));
  };
  const Vector expected = vector_with({});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(vector_with(options()), expected);
}

}  // namespace
}  // namespace billow::engine
