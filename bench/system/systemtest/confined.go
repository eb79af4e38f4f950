package systemtest

// ExitNotConfined is the status of muniment-confined where the kernel can't confine it.
const ExitNotConfined = 77
