// Named configurations: those of AMD Quark 0.13 as it has them, and this product's own.
#pragma once

#include "common/quantize/config.h"

namespace gq::quantize {

// Quark's QConfig of these names. VINT8 is plain QDQ; the NPU-CNN path is on in XINT8.
QuantizeConfig QuarkVint8();
QuantizeConfig QuarkXint8();
QuantizeConfig QuarkBf16();
QuantizeConfig QuarkA8w8();
// Quark's older Config API: uint8 activations with zero point 128.
QuantizeConfig QuarkXint8Legacy();

// XInt8 on both sides without further options: the NPU-CNN path with dedicated pairs.
QuantizeConfig Vint8Npu();

}  // namespace gq::quantize
