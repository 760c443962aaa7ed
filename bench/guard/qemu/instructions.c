// Counts the guest's instructions: see ../main.go.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// What of QEMU's plugin interface (version 1) is used.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, enum qemu_plugin_op, void *, uint64_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

int qemu_plugin_version = 1;
static uint64_t instructions;

// Instruction by instruction, not block by block: a block that comes to an instruction across two pages leaves it to the
// next one and yet counts it, so that code would cost more where the linker lays it so.
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
		qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, i), QEMU_PLUGIN_INLINE_ADD_U64, &instructions, 1);
}
static void ended(qemu_plugin_id_t id, void *unused) {
	FILE *f = fopen(getenv("INSTRUCTIONS"), "w");
	if (f) { fprintf(f, "%llu\n", (unsigned long long)instructions); fclose(f); }
}
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return 0;
}
