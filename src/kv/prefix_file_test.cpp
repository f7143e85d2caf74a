#include "kv/prefix_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "kv/cache.h"
#include "kv/prefix_index.h"
#include "kv/test_texts.h"

namespace billow::kv {
namespace {

namespace fs = std::filesystem;

class PrefixFileTest : public testing::Test {
 protected:
  // The state of one process: KV memory, and an index of it that uses the files.
  struct Process {
    explicit Process(const PrefixFileTest& test, const std::string& name = "m") {
      std::string why;
      PrefixFileOptions options = test.options();
      options.name = name;
      auto file = PrefixFile::open(options, cache.layout(), &why);
      EXPECT_NE(file, nullptr) << why;
      if (file != nullptr) index.attach(std::move(file));
    }
    void write_all() {
      while (index.has_to_write()) index.write_one();
    }
    void drop_all() {
      while (index.evict_oldest()) {
      }
    }
    Cache cache{kNeeds, 64 * 64};
    PrefixIndex index{cache};
  };

  PrefixFileOptions options() const {
    return {.folder = folder_, .max_bytes = max_bytes_, .name = "m", .contents = contents_};
  }
  // Returns the byte that fills a block in place of real KV. The byte depends on all tokens up to
  // the block's end.
  static std::byte content_of(std::span<const int32_t> tokens, size_t group) {
    uint32_t hash = static_cast<uint32_t>(group) + 1;
    for (const int32_t token : tokens) hash = hash * 31 + static_cast<uint32_t>(token);
    return static_cast<std::byte>(hash >> 8 & 0xff);
  }
  static void fill(Process& process, const BlockTable& table, std::span<const int32_t> tokens,
                   size_t block) {
    for (size_t g = 0; g < 2; ++g) {
      BlockPool& pool = process.cache.pool(g);
      const int byte = static_cast<int>(content_of(tokens.first(64 * (block + 1)), g));
      std::memset(pool.base() + table.blocks(g)[block] * pool.block_bytes(), byte,
                  pool.block_bytes());
    }
  }
  // Evaluates a text after its shared prefix, as an engine does, and returns the length of that
  // prefix. Checks the bytes of the shared blocks.
  static size_t evaluate(Process& process, const std::vector<int32_t>& tokens, bool may_load = true,
                         uint64_t salt = 0) {
    BlockTable table(process.cache);
    return evaluate(process, tokens, may_load, table, salt);
  }
  static size_t evaluate(Process& process, const std::vector<int32_t>& tokens, bool may_load,
                         BlockTable& table, uint64_t salt = 0) {
    const size_t max = tokens.size() - 1;
    const TextMarks marks = {.salt = salt};
    if (may_load && process.index.bytes_to_load(tokens, max, marks) != 0)
      process.index.load(tokens, max, marks);
    const size_t n = process.index.match(tokens, max, table, marks).n_tokens;
    for (size_t g = 0; g < 2; ++g) {
      const BlockPool& pool = process.cache.pool(g);
      for (size_t b = 0; b < n / 64; ++b) {
        const BlockId block = table.blocks(g)[b];
        if (block == kNoBlock) continue;
        const std::byte* bytes = pool.base() + block * pool.block_bytes();
        const std::byte expected = content_of(std::span(tokens).first(64 * (b + 1)), g);
        EXPECT_EQ(std::count(bytes, bytes + pool.block_bytes(), expected),
                  static_cast<long>(pool.block_bytes()));
      }
    }
    for (size_t at = n; at < tokens.size();) {
      table.evict_before_window(at);
      const size_t end = std::min((at / 64 + 1) * 64, tokens.size());
      while (!table.grow(end)) EXPECT_TRUE(process.index.evict_oldest());
      if (end % 64 == 0) fill(process, table, tokens, end / 64 - 1);
      process.index.insert(std::span(tokens).first(end), table, marks);
      at = end;
    }
    return n;
  }

  // File systems round times to some milliseconds.
  static void wait_for_next_time() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
  uint64_t bytes_on_disk() const {
    uint64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) sum += entry.file_size();
    return sum;
  }
  // Sets the limit of the folder to this many blocks of both groups.
  void set_limit(size_t n_blocks) {
    const Cache cache(kNeeds, 64);
    constexpr size_t kHead = 512;  // of a record
    max_bytes_ = n_blocks * (cache.pool(0).block_bytes() + cache.pool(1).block_bytes() + kHead);
  }

  TestFolder temporary_;
  const std::string folder_ = temporary_.file("prefixes");
  uint64_t max_bytes_ = uint64_t{1} << 30;
  std::string contents_ = "/proc/self/exe\nmodel";  // a path that exists
};

TEST_F(PrefixFileTest, SharesATextAfterARestart) {
  const std::vector<int32_t> first = text(640, 1);
  const std::vector<int32_t> second = joined(first, text(100, 2));
  {
    Process process(*this);
    EXPECT_EQ(evaluate(process, first), 0u);
    EXPECT_TRUE(process.index.has_to_write());
    process.write_all();
  }
  Process process(*this);
  EXPECT_FALSE(process.index.has_to_write());
  EXPECT_EQ(process.cache.bytes_in_use(), 0u);
  EXPECT_EQ(process.index.latest(5), (std::vector<KnownText>{{first}}));
  EXPECT_EQ(evaluate(process, text(640, 9)), 0u);
  EXPECT_EQ(evaluate(process, second), 640u);
}

TEST_F(PrefixFileTest, KeepsTheSaltsOfTextsAfterARestart) {
  const std::vector<int32_t> tokens = text(640, 1);
  {
    Process process(*this);
    EXPECT_EQ(evaluate(process, tokens, true, kMaxSalt), 0u);
    EXPECT_EQ(evaluate(process, tokens, true, 7), 0u);
    process.write_all();
  }
  Process process(*this);
  EXPECT_EQ(process.index.latest(5).size(), 2u);
  EXPECT_EQ(evaluate(process, tokens), 0u);
  EXPECT_EQ(evaluate(process, tokens, true, 8), 0u);
  EXPECT_EQ(evaluate(process, tokens, true, 7), 576u);
  EXPECT_EQ(evaluate(process, tokens, true, kMaxSalt), 576u);
}

TEST_F(PrefixFileTest, ReadsOnlyTheNeededBlocks) {
  const std::vector<int32_t> tokens = joined(text(640, 1), {7});
  {
    Process process(*this);
    evaluate(process, tokens);
    process.write_all();
  }
  Process process(*this);
  const size_t block = process.cache.pool(0).block_bytes();
  // In the group with a window, the blocks that position 640 sees: positions 541 and later.
  EXPECT_EQ(process.index.bytes_to_load(tokens, 640), 12 * block);
  process.index.load(tokens, 640);
  EXPECT_EQ(process.index.cached_bytes(), 12 * block);
  EXPECT_EQ(process.index.bytes_to_load(tokens, 640), 0u);
}

TEST_F(PrefixFileTest, ReadsEvictedBlocksAgain) {
  Process process(*this);
  const std::vector<int32_t> tokens = text(300, 1);
  evaluate(process, tokens);
  process.write_all();
  process.drop_all();
  EXPECT_EQ(process.cache.bytes_in_use(), 0u);
  EXPECT_EQ(evaluate(process, tokens, false), 0u);
  process.drop_all();
  EXPECT_EQ(evaluate(process, tokens), 256u);
}

TEST_F(PrefixFileTest, DoesNotKnowBlocksThatWereEvictedBeforeTheyWereWritten) {
  const std::vector<int32_t> tokens = text(300, 1);
  {
    Process process(*this);
    evaluate(process, tokens);
    process.index.write_one();
    process.drop_all();
    process.write_all();
  }
  Process process(*this);
  EXPECT_EQ(evaluate(process, tokens), 64u);
}

TEST_F(PrefixFileTest, KeepsTextsOfAdaptersInMemoryOnly) {
  Process process(*this);
  const std::vector<int32_t> tokens = text(128, 1);
  BlockTable table(process.cache);
  ASSERT_TRUE(table.grow(128));
  process.index.insert(tokens, table, {.adapter = 3});
  EXPECT_FALSE(process.index.has_to_write());
  BlockTable other(process.cache);
  ASSERT_TRUE(other.grow(128));
  process.index.insert(tokens, other, {.is_long = true});
  EXPECT_TRUE(process.index.has_to_write());
}

TEST_F(PrefixFileTest, EmptiesFilesWithOtherContents) {
  const std::vector<int32_t> tokens = text(300, 1);
  {
    Process process(*this);
    evaluate(process, tokens);
    process.write_all();
  }
  contents_ = "/proc/self/exe\nanother";
  {
    Process process(*this);
    EXPECT_EQ(process.index.n_entries(), 0u);
    EXPECT_EQ(evaluate(process, tokens), 0u);
    process.write_all();
  }
  contents_ = "/proc/self/exe\nmodel";
  Process process(*this);
  EXPECT_EQ(process.index.n_entries(), 0u);
}

TEST_F(PrefixFileTest, RemovesFilesOfModelsThatAreGone) {
  const std::string model = folder_ + ".model";
  std::ofstream(model) << "x";
  contents_ = model + "\nmodel";
  {
    Process process(*this);
    evaluate(process, text(300, 1));
    process.write_all();
  }
  const std::string path = folder_ + "/m.0.kv";
  PrefixFileOptions other = options();
  other.name = "other";
  other.contents = "/proc/self/exe\nother";
  const Cache cache(kNeeds, 640);
  std::string why;
  EXPECT_NE(PrefixFile::open(other, cache.layout(), &why), nullptr);
  EXPECT_TRUE(fs::exists(path));
  fs::remove(model);
  EXPECT_NE(PrefixFile::open(other, cache.layout(), &why), nullptr);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(folder_ + "/other.0.kv"));
}

TEST_F(PrefixFileTest, OnlyOneProcessCanOpenTheFiles) {
  auto process = std::make_unique<Process>(*this);
  std::string why;
  const Cache cache(kNeeds, 640);
  PrefixFileOptions wanted = options();
  wanted.max_wait = std::chrono::milliseconds(2);
  EXPECT_EQ(PrefixFile::open(wanted, cache.layout(), &why), nullptr);
  EXPECT_NE(why.find("another process"), std::string::npos) << why;
  // The files can be opened as soon as the other process has ended.
  wanted.max_wait = std::chrono::minutes(2);
  const std::jthread end([&] {
    wait_for_next_time();
    process.reset();
  });
  EXPECT_NE(PrefixFile::open(wanted, cache.layout(), &why), nullptr) << why;
}

TEST_F(PrefixFileTest, KeepsFilesBelowTheirLimitAndTheLatestTexts) {
  set_limit(60);
  Process process(*this);
  std::vector<int32_t> last;
  for (unsigned i = 0; i < 50; ++i) {
    last = text(300, i);
    evaluate(process, last);
    process.write_all();
    ASSERT_LE(bytes_on_disk(), max_bytes_);
  }
  process.drop_all();
  EXPECT_EQ(evaluate(process, last), 256u);
  EXPECT_GT(process.index.n_entries(), 20u);
  EXPECT_LT(process.index.n_entries(), 70u);
}

TEST_F(PrefixFileTest, ModelsTogetherKeepTheLimit) {
  set_limit(60);
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 8; ++i) {
    texts.push_back(text(640, i));
    wait_for_next_time();
    Process process(*this, "m" + std::to_string(i));
    evaluate(process, texts.back());
    process.write_all();
    ASSERT_LE(bytes_on_disk(), max_bytes_);
  }
  EXPECT_GT(bytes_on_disk(), max_bytes_ / 2);
  // The models that were used last are still on disk, the first ones are not.
  const auto n_shared = [&](unsigned i) {
    Process process(*this, "m" + std::to_string(i));
    return evaluate(process, texts[i]);
  };
  EXPECT_EQ(n_shared(7), 576u);
  EXPECT_EQ(n_shared(6), 576u);
  EXPECT_EQ(n_shared(0), 0u);
}

TEST_F(PrefixFileTest, ReadingAFileCountsAsUse) {
  set_limit(45);
  std::vector<std::vector<int32_t>> texts;
  const auto use = [&](unsigned i) {
    wait_for_next_time();
    Process process(*this, "m" + std::to_string(i));
    const size_t n_shared = evaluate(process, texts[i]);
    process.write_all();
    return n_shared;
  };
  for (unsigned i = 0; i < 12; ++i) {
    texts.push_back(text(640, i));
    EXPECT_EQ(use(i), 0u);
    EXPECT_EQ(use(0), 576u) << i;
    ASSERT_LE(bytes_on_disk(), max_bytes_);
  }
  EXPECT_EQ(use(1), 0u);
}

// A model in use loses the file that was used least recently. It notices, and stays correct.
TEST_F(PrefixFileTest, MakesRoomInFilesOfModelsInUse) {
  set_limit(40);
  const std::vector<int32_t> first = text(640, 1);
  Process process(*this, "first");
  evaluate(process, first);
  process.write_all();
  process.drop_all();
  EXPECT_NE(process.index.bytes_to_load(first, 639), 0u);
  {
    Process other(*this, "other");
    for (unsigned i = 0; i < 10; ++i) {
      evaluate(other, text(640, 10 + i));
      other.write_all();
      ASSERT_LE(bytes_on_disk(), max_bytes_);
    }
  }
  EXPECT_EQ(evaluate(process, first), 0u);
  process.write_all();
  ASSERT_LE(bytes_on_disk(), max_bytes_);
  process.drop_all();
  EXPECT_EQ(evaluate(process, first), 576u);
}

// Three models with random texts write, read and restart in turns, in one folder.
TEST_F(PrefixFileTest, RandomTextsOfSeveralModels) {
  set_limit(50);
  constexpr size_t kModels = 3;
  std::mt19937 random(11);
  std::vector<std::vector<int32_t>> parts;
  for (unsigned i = 0; i < 5; ++i) parts.push_back(text(64 * (1 + random() % 3), i));
  std::array<std::unique_ptr<Process>, kModels> processes;
  size_t n_shared = 0;
  for (int step = 0; step < 1500; ++step) {
    const size_t i = random() % kModels;
    if (processes[i] == nullptr || random() % 30 == 0) {
      processes[i].reset();
      processes[i] = std::make_unique<Process>(*this, "m" + std::to_string(i));
    }
    Process& process = *processes[i];
    if (random() % 8 == 0) process.drop_all();
    if (random() % 3 == 0) {
      process.write_all();
    } else {
      std::vector<int32_t> tokens;
      for (size_t n = 0; n < 1 + random() % 3; ++n) tokens = joined(tokens, parts[random() % 5]);
      n_shared += evaluate(process, tokens);
    }
    ASSERT_FALSE(HasFailure()) << "step " << step;
    ASSERT_LE(bytes_on_disk(), max_bytes_) << "step " << step;
  }
  EXPECT_GT(n_shared, 20000u);
}

TEST_F(PrefixFileTest, OnDiskCountsWrittenTokens) {
  const std::vector<int32_t> tokens = text(300, 1);
  Process process(*this);
  evaluate(process, tokens);
  EXPECT_EQ(process.index.on_disk(tokens).n_tokens, 0u);
  process.index.write_one();
  EXPECT_EQ(process.index.on_disk(tokens).n_tokens, 64u);
  process.write_all();
  const TextKv all = process.index.on_disk(tokens);
  EXPECT_EQ(all.n_tokens, 256u);
  const size_t block = process.cache.pool(0).block_bytes();
  EXPECT_EQ(all.n_bytes, 8 * block);
  process.drop_all();
  EXPECT_EQ(process.index.on_disk(tokens).n_tokens, 256u);
  EXPECT_EQ(process.index.on_disk(text(300, 2)).n_tokens, 0u);
}

TEST_F(PrefixFileTest, ForgetsTheEndOfATextThatNoOtherTextHas) {
  const std::vector<int32_t> system = text(128, 1);
  const std::vector<int32_t> first = joined(system, text(200, 2));
  const std::vector<int32_t> second = joined(system, text(200, 3));
  Process process(*this);
  evaluate(process, first);
  evaluate(process, second);
  process.write_all();
  EXPECT_EQ(process.index.forget(first).n_tokens, 192u);
  EXPECT_EQ(process.index.forget(first).n_tokens, 0u);
  process.drop_all();
  EXPECT_EQ(evaluate(process, first), 128u);
  EXPECT_EQ(evaluate(process, second), 320u);
  BlockTable in_use(process.cache);
  EXPECT_EQ(process.index.match(second, second.size() - 1, in_use).n_tokens, 320u);
  EXPECT_EQ(process.index.forget(second).n_tokens, 192u);
  EXPECT_EQ(in_use.n_positions(), 320u);
  EXPECT_EQ(evaluate(process, second), 128u);
}

TEST_F(PrefixFileTest, CopiesAGrowingConversationToTheNewerFile) {
  const Cache cache(kNeeds, 64);
  max_bytes_ = 80 * (cache.pool(0).block_bytes() + cache.pool(1).block_bytes());
  std::vector<int32_t> conversation = text(200, 1);
  {
    Process process(*this);
    for (unsigned i = 0; i < 30; ++i) {
      conversation = joined(conversation, text(64, 100 + i));
      EXPECT_EQ(evaluate(process, conversation), i == 0 ? 0 : (conversation.size() - 65) / 64 * 64);
      process.write_all();
      evaluate(process, text(130, 500 + i));  // another conversation
      process.write_all();
      if (i % 7 == 0) process.drop_all();
    }
  }
  Process process(*this);
  EXPECT_EQ(evaluate(process, conversation), conversation.size() / 64 * 64);
}

TEST_F(PrefixFileTest, SkipsATextThatIsLongerThanAFile) {
  max_bytes_ = 40000;
  Process process(*this);
  const std::vector<int32_t> tokens = text(4000, 1);
  evaluate(process, tokens);
  process.write_all();
  process.drop_all();
  EXPECT_LT(evaluate(process, tokens), 4000u);
  uint64_t n_bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) n_bytes += entry.file_size();
  EXPECT_LE(n_bytes, max_bytes_);
}

// The beginning of a long text is kept, and other texts are not evicted in vain.
TEST_F(PrefixFileTest, ATextThatIsLongerThanAFileKeepsOthers) {
  set_limit(60);
  const std::vector<int32_t> first = text(256, 1);
  Process process(*this);
  evaluate(process, joined(first, {7}));
  process.write_all();
  const std::vector<int32_t> longer = text(4000, 2);
  evaluate(process, longer);
  process.write_all();
  process.drop_all();
  EXPECT_GT(process.index.on_disk(longer).n_tokens, 1000u);
  EXPECT_EQ(evaluate(process, joined(first, {7})), 256u);
}

TEST_F(PrefixFileTest, ForgetFileEmptiesTheFiles) {
  {
    Process process(*this);
    evaluate(process, text(300, 1));
    process.write_all();
    evaluate(process, text(300, 2));
    process.drop_all();
    process.index.forget_file();
    EXPECT_EQ(process.index.n_entries(), 0u);
    EXPECT_FALSE(process.index.has_to_write());
  }
  const Process process(*this);
  EXPECT_EQ(process.index.n_entries(), 0u);
}

// Truncates or changes a file anywhere: no byte is ever wrong, and the next process can write.
TEST_F(PrefixFileTest, DamageNeverGivesWrongBytes) {
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 6; ++i) texts.push_back(joined(text(192, i / 2), text(150, 10 + i)));
  {
    Process process(*this);
    for (const std::vector<int32_t>& one : texts) evaluate(process, one);
    process.write_all();
  }
  const std::string saved = folder_ + ".saved";
  fs::copy(folder_, saved);
  std::mt19937 random(3);
  size_t n_shared = 0;
  for (int round = 0; round < 150; ++round) {
    fs::remove_all(folder_);
    fs::copy(saved, folder_);
    const std::string path = folder_ + "/m.0.kv";
    const size_t size = fs::file_size(path);
    if (round % 3 == 0) {
      fs::resize_file(path, random() % size);
    } else {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      // Heads are few of the bytes, so every third round hits the first bytes.
      const size_t at = round % 3 == 1 ? random() % size : random() % 300;
      file.seekg(static_cast<long>(at));
      const int byte = file.get();
      file.seekp(static_cast<long>(at));
      file.put(static_cast<char>(byte ^ (1 << random() % 8)));
    }
    {
      Process process(*this);
      for (const std::vector<int32_t>& one : texts) n_shared += evaluate(process, one);
      process.write_all();
    }
    Process process(*this);
    for (const std::vector<int32_t>& one : texts)
      ASSERT_EQ(evaluate(process, one), one.size() / 64 * 64) << round;
  }
  EXPECT_GT(n_shared, 10000u);
}

// A process dies at any moment while it writes and turns files: no byte is ever wrong.
TEST_F(PrefixFileTest, KilledProcessesNeverLeaveWrongBytes) {
  set_limit(60);
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 12; ++i) texts.push_back(joined(text(128, i / 3), text(200, 10 + i)));
  std::mt19937 random(7);
  size_t n_shared = 0;
  for (int round = 0; round < 20; ++round) {
    const unsigned seed = static_cast<unsigned>(random());
    const pid_t child = ::fork();
    if (child == 0) {
      Process process(*this);
      std::mt19937 choose(seed);
      for (;;) {
        evaluate(process, texts[choose() % texts.size()]);
        process.write_all();
        if (HasFailure()) ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 30000));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the child has found wrong bytes";
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    Process process(*this);
    for (const std::vector<int32_t>& one : texts) n_shared += evaluate(process, one);
    process.write_all();
    ASSERT_FALSE(HasFailure()) << round;
    ASSERT_LE(bytes_on_disk(), max_bytes_) << round;
  }
  EXPECT_GT(n_shared, 10000u);
}

// Random texts with shared prefixes, restarts, evictions and writes. Shared blocks have the right
// bytes (evaluate() checks them), and nothing leaks.
TEST_F(PrefixFileTest, RandomTextsAndRestarts) {
  const Cache cache(kNeeds, 64);
  max_bytes_ = 90 * (cache.pool(0).block_bytes() + cache.pool(1).block_bytes());
  std::mt19937 random(5);
  std::vector<std::vector<int32_t>> parts;
  for (unsigned i = 0; i < 6; ++i) parts.push_back(text(64 * (1 + random() % 3), i));
  auto process = std::make_unique<Process>(*this);
  std::list<BlockTable> in_use;
  size_t n_shared = 0;
  for (int step = 0; step < 1500; ++step) {
    const auto what = random() % 20;
    if (what == 0) {
      in_use.clear();
      process.reset();
      process = std::make_unique<Process>(*this);
    } else if (what < 4) {
      (void)process->index.evict_oldest();
    } else if (what < 8) {
      if (process->index.has_to_write()) process->index.write_one();
    } else if (what == 8) {
      process->drop_all();
    } else {
      if (in_use.size() > 3) in_use.pop_front();
      std::vector<int32_t> tokens;
      for (size_t i = 0; i < 1 + random() % 3; ++i) tokens = joined(tokens, parts[random() % 6]);
      BlockTable table(process->cache);
      n_shared += evaluate(*process, tokens, random() % 4 != 0, table);
      if (random() % 3 == 0) in_use.push_back(std::move(table));
    }
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
  EXPECT_GT(n_shared, 20000u);
  in_use.clear();
  process->index.forget_file();
  process->drop_all();
  EXPECT_EQ(process->index.n_entries(), 0u);
  EXPECT_EQ(process->cache.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace billow::kv
