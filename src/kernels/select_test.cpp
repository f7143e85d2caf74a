#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

TEST(SelectTable, ForcesTheNamedTableOrSaysWhyNot) {
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

TEST(SelectTable, TakesTheBestThatTheProcessorHas) {
  const KernelTable& chosen = select_table("");
  for (const KernelTable* table : tables()) {
    if (table == &chosen) break;
    EXPECT_FALSE(table->supported(cpu::features())) << table->name;
  }
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
    for (const quant::TypeRow& row : quant::types()) {
      const TypeKernels& kernels = table->of(row.type);
      EXPECT_TRUE(kernels.gemm && kernels.pack_strip && kernels.input && kernels.input->write_group)
          << table->name << " " << row.name;
    }
  }
}

}  // namespace
}  // namespace billow::kernels
