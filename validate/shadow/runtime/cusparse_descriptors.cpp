// Descriptors of cuSPARSE: what was described is answered again. Storage format "generic" API and the older
// cusparseMatDescr_t. https://docs.nvidia.com/cuda/cusparse/#cusparse-generic-api-reference
#include <cstdint>
#include <cstring>

#include "validate/shadow/runtime/runtime.h"

namespace {

// cusparseStatus_t
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 3;

using Size = std::int64_t;

struct SparseMatrix {
  int format = 0;  // cusparseFormat_t: 1 CSR, 2 CSC, 3 COO, 6 BSR
  Size rows = 0, columns = 0, entries = 0;
  void* offsets = nullptr;  // COO: row indices
  void* indices = nullptr;
  void* values = nullptr;
  int offsets_type = 0, indices_type = 0, base = 0, value_type = 0;
  int batch = 1;
  int fill_mode = 0, diagonal_type = 0;  // cusparseSpMatAttribute_t 0 and 1
};

struct DenseMatrix {
  Size rows = 0, columns = 0, ld = 0;
  void* values = nullptr;
  int value_type = 0, order = 0;
  int batch = 1;
  Size batch_stride = 0;
};

struct DenseVector {
  Size size = 0;
  void* values = nullptr;
  int value_type = 0;
};

/// cusparseMatDescr_t
struct MatrixDescription {
  int type = 0, fill_mode = 0, diagonal_type = 0, index_base = 0;
};

template <class T>
int create(T** out, const T& value) {
  if (out == nullptr) return kInvalidValue;
  *out = new T(value);
  return kSuccess;
}

template <class T>
int destroy(const T* object) {
  if (object == nullptr) return kInvalidValue;
  delete object;
  return kSuccess;
}

template <class T>
void answer(T* out, T value) {
  if (out != nullptr) *out = value;
}

int set_pointers(SparseMatrix* matrix, void* offsets, void* indices, void* values) {
  if (matrix == nullptr) return kInvalidValue;
  matrix->offsets = offsets;
  matrix->indices = indices;
  matrix->values = values;
  return kSuccess;
}

template <class T, class V>
int set_field(T* object, V T::*field, V value) {
  if (object == nullptr) return kInvalidValue;
  object->*field = value;
  return kSuccess;
}

template <class T, class V>
int get_field(const T* object, V T::*field, V* value) {
  if (object == nullptr || value == nullptr) return kInvalidValue;
  *value = object->*field;
  return kSuccess;
}

int* attribute_of(SparseMatrix* matrix, int attribute, std::size_t bytes) {
  if (matrix == nullptr || bytes != sizeof(int)) return nullptr;
  return attribute == 0 ? &matrix->fill_mode : attribute == 1 ? &matrix->diagonal_type : nullptr;
}

}  // namespace

// --- sparse matrices -----------------------------------------------------------------------------------------------

SHADOW_API int cusparseCreateCsr(SparseMatrix** out, Size rows, Size columns, Size entries, void* offsets,
                                 void* indices, void* values, int offsets_type, int indices_type, int base,
                                 int value_type) {
  return create(out,
                {1, rows, columns, entries, offsets, indices, values, offsets_type, indices_type, base, value_type});
}
SHADOW_API int cusparseCreateConstCsr(SparseMatrix** out, Size rows, Size columns, Size entries, void* offsets,
                                      void* indices, void* values, int offsets_type, int indices_type, int base,
                                      int value_type) {
  return cusparseCreateCsr(out, rows, columns, entries, offsets, indices, values, offsets_type, indices_type, base,
                           value_type);
}
SHADOW_API int cusparseCreateCsc(SparseMatrix** out, Size rows, Size columns, Size entries, void* offsets,
                                 void* indices, void* values, int offsets_type, int indices_type, int base,
                                 int value_type) {
  return create(out,
                {2, rows, columns, entries, offsets, indices, values, offsets_type, indices_type, base, value_type});
}
SHADOW_API int cusparseCreateConstCsc(SparseMatrix** out, Size rows, Size columns, Size entries, void* offsets,
                                      void* indices, void* values, int offsets_type, int indices_type, int base,
                                      int value_type) {
  return cusparseCreateCsc(out, rows, columns, entries, offsets, indices, values, offsets_type, indices_type, base,
                           value_type);
}
SHADOW_API int cusparseCreateCoo(SparseMatrix** out, Size rows, Size columns, Size entries, void* row_indices,
                                 void* column_indices, void* values, int index_type, int base, int value_type) {
  return create(
      out, {3, rows, columns, entries, row_indices, column_indices, values, index_type, index_type, base, value_type});
}
SHADOW_API int cusparseCreateConstCoo(SparseMatrix** out, Size rows, Size columns, Size entries, void* row_indices,
                                      void* column_indices, void* values, int index_type, int base, int value_type) {
  return cusparseCreateCoo(out, rows, columns, entries, row_indices, column_indices, values, index_type, base,
                           value_type);
}
// A BSR matrix's size is in elements, here and in cusparseSpMatGetSize.
SHADOW_API int cusparseCreateBsr(SparseMatrix** out, Size block_rows, Size block_columns, Size blocks, Size rows_each,
                                 Size columns_each, void* offsets, void* indices, void* values, int offsets_type,
                                 int indices_type, int base, int value_type, int /*order*/) {
  return create(out, {6, block_rows * rows_each, block_columns * columns_each, blocks * rows_each * columns_each,
                      offsets, indices, values, offsets_type, indices_type, base, value_type});
}
SHADOW_API int cusparseDestroySpMat(const SparseMatrix* matrix) { return destroy(matrix); }

SHADOW_API int cusparseCsrSetPointers(SparseMatrix* matrix, void* offsets, void* indices, void* values) {
  return set_pointers(matrix, offsets, indices, values);
}
SHADOW_API int cusparseCscSetPointers(SparseMatrix* matrix, void* offsets, void* indices, void* values) {
  return set_pointers(matrix, offsets, indices, values);
}
SHADOW_API int cusparseCooSetPointers(SparseMatrix* matrix, void* rows, void* columns, void* values) {
  return set_pointers(matrix, rows, columns, values);
}
SHADOW_API int cusparseCsrSetStridedBatch(SparseMatrix* matrix, int batch, Size /*offsets*/, Size /*values*/) {
  return set_field(matrix, &SparseMatrix::batch, batch);
}
SHADOW_API int cusparseCooSetStridedBatch(SparseMatrix* matrix, int batch, Size /*stride*/) {
  return set_field(matrix, &SparseMatrix::batch, batch);
}

SHADOW_API int cusparseSpMatGetSize(const SparseMatrix* matrix, Size* rows, Size* columns, Size* entries) {
  if (matrix == nullptr) return kInvalidValue;
  answer(rows, matrix->rows);
  answer(columns, matrix->columns);
  answer(entries, matrix->entries);
  return kSuccess;
}
SHADOW_API int cusparseCsrGet(const SparseMatrix* matrix, Size* rows, Size* columns, Size* entries, void** offsets,
                              void** indices, void** values, int* offsets_type, int* indices_type, int* base,
                              int* value_type) {
  if (const int status = cusparseSpMatGetSize(matrix, rows, columns, entries)) return status;
  answer(offsets, matrix->offsets);
  answer(indices, matrix->indices);
  answer(values, matrix->values);
  answer(offsets_type, matrix->offsets_type);
  answer(indices_type, matrix->indices_type);
  answer(base, matrix->base);
  answer(value_type, matrix->value_type);
  return kSuccess;
}
SHADOW_API int cusparseSpMatGetFormat(const SparseMatrix* matrix, int* format) {
  return get_field(matrix, &SparseMatrix::format, format);
}
SHADOW_API int cusparseSpMatGetIndexBase(const SparseMatrix* matrix, int* base) {
  return get_field(matrix, &SparseMatrix::base, base);
}
SHADOW_API int cusparseSpMatGetValues(const SparseMatrix* matrix, void** values) {
  return get_field(matrix, &SparseMatrix::values, values);
}
SHADOW_API int cusparseSpMatSetValues(SparseMatrix* matrix, void* values) {
  return set_field(matrix, &SparseMatrix::values, values);
}
SHADOW_API int cusparseSpMatGetStridedBatch(const SparseMatrix* matrix, int* batch) {
  return get_field(matrix, &SparseMatrix::batch, batch);
}
SHADOW_API int cusparseSpMatSetAttribute(SparseMatrix* matrix, int attribute, const void* value, std::size_t bytes) {
  int* const field = attribute_of(matrix, attribute, bytes);
  if (field == nullptr || value == nullptr) return kInvalidValue;
  std::memcpy(field, value, bytes);
  return kSuccess;
}
SHADOW_API int cusparseSpMatGetAttribute(SparseMatrix* matrix, int attribute, void* value, std::size_t bytes) {
  const int* const field = attribute_of(matrix, attribute, bytes);
  if (field == nullptr || value == nullptr) return kInvalidValue;
  std::memcpy(value, field, bytes);
  return kSuccess;
}

// --- dense matrices and vectors ------------------------------------------------------------------------------------

SHADOW_API int cusparseCreateDnMat(DenseMatrix** out, Size rows, Size columns, Size ld, void* values, int value_type,
                                   int order) {
  return create(out, {rows, columns, ld, values, value_type, order});
}
SHADOW_API int cusparseCreateConstDnMat(DenseMatrix** out, Size rows, Size columns, Size ld, void* values,
                                        int value_type, int order) {
  return cusparseCreateDnMat(out, rows, columns, ld, values, value_type, order);
}
SHADOW_API int cusparseDestroyDnMat(const DenseMatrix* matrix) { return destroy(matrix); }
SHADOW_API int cusparseDnMatGet(const DenseMatrix* matrix, Size* rows, Size* columns, Size* ld, void** values,
                                int* value_type, int* order) {
  if (matrix == nullptr) return kInvalidValue;
  answer(rows, matrix->rows);
  answer(columns, matrix->columns);
  answer(ld, matrix->ld);
  answer(values, matrix->values);
  answer(value_type, matrix->value_type);
  answer(order, matrix->order);
  return kSuccess;
}
SHADOW_API int cusparseDnMatGetValues(const DenseMatrix* matrix, void** values) {
  return get_field(matrix, &DenseMatrix::values, values);
}
SHADOW_API int cusparseDnMatSetValues(DenseMatrix* matrix, void* values) {
  return set_field(matrix, &DenseMatrix::values, values);
}
SHADOW_API int cusparseDnMatSetStridedBatch(DenseMatrix* matrix, int batch, Size stride) {
  if (matrix == nullptr) return kInvalidValue;
  matrix->batch = batch;
  matrix->batch_stride = stride;
  return kSuccess;
}
SHADOW_API int cusparseDnMatGetStridedBatch(const DenseMatrix* matrix, int* batch, Size* stride) {
  if (matrix == nullptr) return kInvalidValue;
  answer(batch, matrix->batch);
  answer(stride, matrix->batch_stride);
  return kSuccess;
}

SHADOW_API int cusparseCreateDnVec(DenseVector** out, Size size, void* values, int value_type) {
  return create(out, {size, values, value_type});
}
SHADOW_API int cusparseCreateConstDnVec(DenseVector** out, Size size, void* values, int value_type) {
  return cusparseCreateDnVec(out, size, values, value_type);
}
SHADOW_API int cusparseDestroyDnVec(const DenseVector* vector) { return destroy(vector); }
SHADOW_API int cusparseDnVecGetValues(const DenseVector* vector, void** values) {
  return get_field(vector, &DenseVector::values, values);
}
SHADOW_API int cusparseDnVecSetValues(DenseVector* vector, void* values) {
  return set_field(vector, &DenseVector::values, values);
}

// --- the older description of a matrix -----------------------------------------------------------------------------

SHADOW_API int cusparseCreateMatDescr(MatrixDescription** out) { return create(out, {}); }
SHADOW_API int cusparseDestroyMatDescr(const MatrixDescription* description) { return destroy(description); }

#define SHADOW_DESCRIPTION(Name, field)                                            \
  SHADOW_API int cusparseSetMat##Name(MatrixDescription* description, int value) { \
    return set_field(description, &MatrixDescription::field, value);               \
  }                                                                                \
  SHADOW_API int cusparseGetMat##Name(const MatrixDescription* description) {      \
    return description == nullptr ? 0 : description->field;                        \
  }
SHADOW_DESCRIPTION(Type, type)
SHADOW_DESCRIPTION(FillMode, fill_mode)
SHADOW_DESCRIPTION(DiagType, diagonal_type)
SHADOW_DESCRIPTION(IndexBase, index_base)
#undef SHADOW_DESCRIPTION
