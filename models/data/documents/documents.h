#ifndef SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENTS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/corpora/token_source.h"
#include "models/data/data_request.h"
#include "models/data/dataset.h"
#include "models/data/documents/document_tokens.h"

namespace sluice {

// Documents that lie in one source one after another.
struct Documents {
  std::unique_ptr<TokenSource> tokens = nullptr;  // WithoutCounting where a token does not count
  std::vector<int64_t> begins = {};  // of each document, and at last the end of the last one
  // Of each document the tokens after its first that count; empty: all of them do. A document with
  // tokens that do not count has at most `seq` tokens.
  std::vector<int32_t> counted = {};

  int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
};

// Whole documents in windows of request.seq tokens, greedily and in their order: one that does not
// fit into what is left of a window begins the next one; without `packed`, each begins its own. A
// longer one fills windows of its own first, and the target of the last token of each part but the
// last is the token that follows in the document. Positions begin anew with each document and each
// part. What is left of a window is padded with token 0, which is a document of its own. The
// targets of padding, of a document's last token, and tokens that do not count are kNoTarget. Each
// epoch has each window once, in an order of its own. Documents without a target that counts are in
// no window. `validation` may be null: request.validation.share of the documents, the last ones, one
// at least unless the share is 0.
absl::StatusOr<std::unique_ptr<Dataset>> MakeDocumentDataset(Documents train,
                                                             std::unique_ptr<Documents> validation,
                                                             bool packed,
                                                             std::vector<std::string> notes,
                                                             const DataRequest& request);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENTS_H_
