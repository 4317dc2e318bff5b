/* Libra's job attributes; to be appended to src/include/site_job_attr_def.h of OpenPBS. See README.md. */

#define LIBRA_JOB_ATTRIBUTE(name)                                                               \
    {                                                                                           \
        name, decode_str, encode_str, set_str, comp_str, free_str, NULL_FUNC,                   \
            READ_WRITE | ATR_DFLAG_SELEQ, ATR_TYPE_STR, PARENT_TYPE_JOB                         \
    }

LIBRA_JOB_ATTRIBUTE("estimate"),
LIBRA_JOB_ATTRIBUTE("deadline"),
LIBRA_JOB_ATTRIBUTE("budget"),
LIBRA_JOB_ATTRIBUTE("deadline_type"),
LIBRA_JOB_ATTRIBUTE("penalty_rate"),
LIBRA_JOB_ATTRIBUTE("class"),
