// Tensor cores are refused on a CPU; what else is in the file may use these names.
#pragma once
namespace nvcuda {
namespace wmma {}
}
