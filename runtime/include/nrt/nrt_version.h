/* Version query (spec/nrt-api.md 3.1, 4.6). As published, needs nrt/nrt.h to be included first. */
#ifndef NRT_VERSION_H
#define NRT_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define RT_VERSION_DETAIL_LEN 128
#define GIT_HASH_LEN 64

typedef struct nrt_version {
  uint64_t rt_major;
  uint64_t rt_minor;
  uint64_t rt_patch;
  uint64_t rt_maintenance;
  char rt_detail[RT_VERSION_DETAIL_LEN];
  char git_hash[GIT_HASH_LEN];
} nrt_version_t;

/* Copies min(size, library size) bytes. */
NRT_STATUS nrt_get_version(nrt_version_t *ver, size_t size);

#ifdef __cplusplus
}
#endif

#endif
