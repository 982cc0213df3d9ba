#ifndef SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_TOKENS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_TOKENS_H_

#include <cstdint>

namespace sluice {

// A token of a document that does not count as a target: its id is kept as ~id, which is negative.
inline int32_t WithoutCounting(int32_t id) { return ~id; }
inline int32_t IdOfToken(int32_t token) { return token < 0 ? ~token : token; }

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_TOKENS_H_
