/* tls.c - see tls.h. */
#include "http/tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct shimmy_tls {
    const char *certificate, *key;
    SSL_CTX *context;
};

static int fail(af_error *error, const char *option, const char *path) {
    const unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return af_fail(error, AF_EIO, "%s %s: %s", option, path, reason ? reason : "cannot be used");
}

static int load(SSL_CTX *context, const shimmy_tls *tls, af_error *error) {
    if (SSL_CTX_use_certificate_chain_file(context, tls->certificate) != 1)
        return fail(error, "--tls-cert", tls->certificate);
    if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return fail(error, "--tls-key", tls->key);
    return 0;
}

int shimmy_tls_reload(shimmy_tls *tls, af_error *error) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) return af_fail(error, AF_ENOMEM, "TLS: out of memory");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* an idle connection costs a few kilobytes */
    const int rc = load(context, tls, error);
    if (rc < 0) {
        SSL_CTX_free(context);
        return rc;
    }
    SSL_CTX_free(tls->context); /* connections that have it keep it */
    tls->context = context;
    return 0;
}

int shimmy_tls_open(const char *certificate, const char *key, shimmy_tls **out, af_error *error) {
    shimmy_tls *tls = calloc(1, sizeof *tls);
    if (!tls) return af_fail_memory(error, sizeof *tls, "TLS");
    tls->certificate = certificate;
    tls->key = key;
    const int rc = shimmy_tls_reload(tls, error);
    if (rc < 0)
        shimmy_tls_close(tls);
    else
        *out = tls;
    return rc;
}

void shimmy_tls_close(shimmy_tls *tls) {
    if (!tls) return;
    SSL_CTX_free(tls->context);
    free(tls);
}

struct bufferevent *shimmy_tls_accept(shimmy_tls *tls, struct event_base *base, int fd) {
    SSL *ssl = SSL_new(tls->context);
    if (!ssl) return NULL;
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (!bev) SSL_free(ssl);
    return bev;
}

/* One-sided: the client's own goodbye is not waited for. */
void shimmy_tls_goodbye(struct bufferevent *bev) {
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    if (!ssl) return;
    SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
    SSL_shutdown(ssl);
    ERR_clear_error();
}
