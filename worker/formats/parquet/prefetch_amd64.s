#include "textflag.h"

// func prefetch(b []byte)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ  b_base+0(FP), AX
	MOVQ  b_len+8(FP), CX
	TESTQ CX, CX
	JEQ   done
	ADDQ  AX, CX

line:
	PREFETCHT0 (AX)
	ADDQ       $64, AX
	CMPQ       AX, CX
	JCS        line

done:
	RET
