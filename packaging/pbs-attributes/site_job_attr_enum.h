/* Libra's job attributes; to be appended to src/include/site_job_attr_enum.h of OpenPBS, in the order of
   site_job_attr_def.h. See README.md. */

JOB_SITE_ATR_estimate,
JOB_SITE_ATR_deadline,
JOB_SITE_ATR_budget,
JOB_SITE_ATR_deadline_type,
JOB_SITE_ATR_penalty_rate,
JOB_SITE_ATR_class,
