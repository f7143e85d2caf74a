#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_table.h"
#include "kernels/test_data.h"

namespace billow::kernels {
namespace {

TEST(SelectTable, ForcesTheNamedTableOrThrows) {
  for (const KernelTable* table : tables()) {
    if (table->supported(cpu::features())) {
      EXPECT_EQ(&select_table(table->name), table);
    } else {
      EXPECT_THROW(select_table(table->name), Error);
    }
  }
  try {
    select_table("z80");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("z80"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("scalar"), std::string::npos);
  }
}

TEST(SelectTable, TakesTheBestTableOfTheProcessor) {
  for (const Work work : {Work::kSequences, Work::kEncoder}) {
    const KernelTable& chosen = select_table("", work);
    for (const KernelTable* table : tables()) {
      if (table == &chosen) break;
      EXPECT_FALSE(table->preferred(cpu::features()) &&
                   (work == Work::kEncoder || !table->is_for_encoders))
          << table->name;
    }
    EXPECT_TRUE(chosen.preferred(cpu::features()) && chosen.supported(cpu::features()));
    EXPECT_TRUE(work == Work::kEncoder || !chosen.is_for_encoders) << chosen.name;
  }
}

// One test for each table, so that skips show the tables that this machine cannot run.
class Forced : public EachTable {};

TEST_P(Forced, EnvironmentSelectsTheTable) {
  const KernelTable& table = *GetParam();
  const char* before = std::getenv("BILLOW_ISA");
  const std::string kept = before ? before : "";
  ::setenv("BILLOW_ISA", std::string(table.name).c_str(), 1);
  if (table.supported(cpu::features())) {
    EXPECT_EQ(&select_table(), &table);
  } else {
    EXPECT_THROW(select_table(), Error);
  }
  if (before == nullptr) ::unsetenv("BILLOW_ISA");
  if (before != nullptr) ::setenv("BILLOW_ISA", kept.c_str(), 1);
  if (!table.supported(cpu::features())) {
    GTEST_SKIP() << "this processor has no " << table.name << "; refused, as expected";
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Forced, testing::ValuesIn(tables()), table_name);

TEST(SelectTable, NamesEqualThoseInTheDocuments) {
  std::vector<std::string_view> names;
  for (const KernelTable* table : tables()) names.push_back(table->name);
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"amx_bf16", "amx_prompts", "amx", "avx512_fp16",
                                           "avx512_bf16", "avx512", "avx_vnni", "avx2", "scalar"}));
}

TEST(SelectTable, EveryTableHasEveryKernelAndType) {
  for (const KernelTable* table : tables()) {
    EXPECT_NE(table->rms_norm, nullptr);
    EXPECT_NE(table->rope, nullptr);
    EXPECT_NE(table->silu_multiply, nullptr);
    EXPECT_NE(table->gelu_multiply, nullptr);
    EXPECT_NE(table->add, nullptr);
    EXPECT_NE(table->softcap, nullptr);
    EXPECT_NE(table->store_kv, nullptr);
    EXPECT_NE(table->attention, nullptr);
    EXPECT_NE(table->merge_attention, nullptr);
    EXPECT_NE(table->read_attention, nullptr);
    bool differs = table->read_attention != table->attention;
    for (const quant::TypeRow& row : quant::types()) {
      const TypeKernels& written = table->of(row.type, RowKind::kWritten);
      const TypeKernels& read = table->of(row.type, RowKind::kRead);
      for (const TypeKernels* kernels : {&written, &read})
        EXPECT_TRUE(kernels->gemm && kernels->pack_strip && kernels->input &&
                    kernels->input->quantize)
            << table->name << " " << row.name;
      EXPECT_EQ(read.pack_strip, written.pack_strip) << table->name << " " << row.name;
      differs = differs || read.gemm != written.gemm;
    }
    EXPECT_EQ(table->has_read_kernels, differs) << table->name;
  }
}

}  // namespace
}  // namespace billow::kernels
