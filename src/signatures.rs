//! Compares every function with its declaration in `include/libra.h`.
//!
//! Two functions fit into one array only when their signatures are the same: a declaration that
//! was changed and a function that was not do not compile.

use super::header;

macro_rules! same {
    ($($name:ident),* $(,)?) => {$(
        const _: () = {
            let _ = [header::$name, super::$name];
        };
    )*};
}

same!(
    req_budget,
    accept_reject_all_nodes,
    libra_parse_terms,
    libra_book_open,
    libra_book_close,
    libra_book_set_node,
    libra_book_set_available,
    libra_book_admit,
    libra_book_bind,
    libra_book_started,
    libra_book_progress,
    libra_book_ended,
    libra_book_cancel,
    libra_book_cancel_token,
    libra_book_modify,
    libra_book_advance,
    libra_book_allocations,
    libra_book_committed,
    libra_book_node_name,
    libra_book_snapshot,
    libra_book_rebuild,
    libra_host_open,
    libra_host_close,
    libra_host_describe,
    libra_host_begin,
    libra_host_attach,
    libra_host_usage,
    libra_host_adjust,
    libra_host_end,
    libra_version,
    libra_last_error,
    libra_code_text,
    libra_pbs_event,
    libra_string_free,
    libra_set_log,
);
