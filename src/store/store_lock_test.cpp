// Locks belong to open files, so two stores on one folder behave like stores of two processes.
#include "store/store_lock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/test_folder.h"
#include "store/sample_model.h"
#include "store/store.h"

namespace billow::store {
namespace {

constexpr std::chrono::seconds kNoAge{0};

TEST(StoreLock, AllowsOneChangeAtATime) {
  const TestFolder folder;
  std::atomic<int> n_inside{0};
  std::atomic<bool> overlapped{false};
  const auto change = [&](StoreLock& lock) {
    for (int i = 0; i < 200; ++i) {
      const StoreLock::Change one(lock);
      if (++n_inside != 1) overlapped = true;
      std::this_thread::yield();
      --n_inside;
    }
  };
  StoreLock a(folder.path() + "/lock");
  StoreLock b(folder.path() + "/lock");
  {
    std::jthread first([&] { change(a); });
    std::jthread second([&] { change(a); });
    std::jthread third([&] { change(b); });
  }
  EXPECT_FALSE(overlapped);
}

TEST(StoreLock, RefusesRemovalDuringACreationElsewhere) {
  const TestFolder folder;
  StoreLock a(folder.path() + "/lock");
  StoreLock b(folder.path() + "/lock");
  a.begin_making();
  b.begin_making();
  EXPECT_FALSE(StoreLock::Removal(b)) << "a creates a model";
  b.end_making();
  EXPECT_FALSE(StoreLock::Removal(b)) << "a still creates a model";
  EXPECT_TRUE(StoreLock::Removal(a)) << "an object knows which blobs it needs itself";
  EXPECT_FALSE(StoreLock::Removal(b)) << "a still creates a model after its removal";
  a.end_making();
  EXPECT_TRUE(StoreLock::Removal(b));
}

TEST(StoreLock, WorksWithoutALockFile) {
  StoreLock lock("/proc/no such folder/lock");
  const StoreLock::Change change(lock);
  lock.begin_making();
  lock.end_making();
  EXPECT_TRUE(StoreLock::Removal(lock));
}

TEST(TwoStores, DoNotRemoveBlobsOfAModelInCreation) {
  const TestFolder folder;
  Store a(folder.path());
  Store b(folder.path());
  a.add_layer(kSystemLayer, "uploaded");
  {
    Store::Hold hold(a);
    hold.add(digest_of("uploaded"));
    EXPECT_EQ(b.prune(kNoAge).n_blobs, 0u);
    put_sample(b, "m", "weights");
    EXPECT_TRUE(b.remove(named("m")));
    EXPECT_TRUE(a.has_blob(digest_of("uploaded")));
  }
  EXPECT_GE(b.prune(kNoAge).n_blobs, 1u) << "a later cleanup removes the kept blobs";
  EXPECT_FALSE(a.has_blob(digest_of("uploaded")));
}

TEST(TwoStores, DoNotRemoveARunningUpload) {
  const TestFolder folder;
  Store a(folder.path());
  Store b(folder.path());
  const std::string text(1000, 'x');
  bool asked = false;
  a.add_blob(digest_of(text), [&](std::span<std::byte> part) -> size_t {
    if (std::exchange(asked, true)) return 0;
    EXPECT_EQ(b.prune(kNoAge).n_partial, 0u);
    std::ranges::copy(std::as_bytes(std::span(text)), part.begin());
    return text.size();
  });
  EXPECT_TRUE(b.has_blob(digest_of(text)));
}

TEST(TwoStores, RemoveAnUnfinishedFileWithoutAWriter) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "m", "weights");
  const std::string path = folder.path() + "/blobs/" + digest_of("x").file_name() + ".partial-1";
  std::ofstream(path) << "x";
  EXPECT_EQ(store.prune(kNoAge).n_partial, 1u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace billow::store
