// The commands of the program, one file each. add_NAME() adds a command with its options to `app`.
// The command's callback runs it and throws Error if it fails. Results go to standard output,
// everything else goes to standard error.
#pragma once

namespace CLI {
class App;
}

namespace billow::cli {

void add_inspect(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_detokenize(CLI::App& app);
void add_render(CLI::App& app);
void add_generate(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_convert(CLI::App& app);
void add_quantize(CLI::App& app);
void add_imatrix(CLI::App& app);
void add_logits(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_runner(CLI::App& app);
void add_with_parent(CLI::App& app);
void add_serve(CLI::App& app);
void add_trace(CLI::App& app);
void add_doctor(CLI::App& app);
void add_help(CLI::App& app);
void add_version(CLI::App& app);
// For shells and packages.
void add_complete(CLI::App& app);
void add_manual(CLI::App& app);
// Commands that talk to a running server; their files are in client/.
void add_run(CLI::App& app);
void add_create(CLI::App& app);
void add_pull(CLI::App& app);
void add_push(CLI::App& app);
void add_show(CLI::App& app);
void add_list(CLI::App& app);
void add_ps(CLI::App& app);
void add_cp(CLI::App& app);
void add_rm(CLI::App& app);
void add_stop(CLI::App& app);
void add_embed(CLI::App& app);
void add_fingerprint(CLI::App& app);
// API keys of servers.
void add_keys(CLI::App& app);
// For several servers; its files are in fleet/.
void add_fleet(CLI::App& app);

}  // namespace billow::cli
