#ifndef SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_
#define SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_

namespace sluice {

// A port of this machine on which nothing listens, for another process to listen on. Not a port
// that the system assigns itself (32768 and up): between this call and that process, the system may
// assign such a port to any connection.
int FreePort();

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_FAULTS_FREE_PORT_H_
