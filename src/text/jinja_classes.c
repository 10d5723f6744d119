/* jinja_classes.c - Python's classes of characters (str.isdigit and the like): categories by utf8proc, and the
 * characters that are in a class without its category, by Unicode's files.
 */
#include "text/jinja_value.h"

#include <utf8proc.h>

typedef struct range {
    uint32_t from, to;
} range;

/* Numeric_Type Digit and not Decimal (extracted/DerivedNumericType.txt): digits in circles, superscripts. */
static const range digits[] = {
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};
/* Numeric_Type Numeric and no number by category (Unihan's kPrimaryNumeric and others): Han characters. */
static const range numerals[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},   {0x3B4D, 0x3B4D},   {0x4E00, 0x4E00},
    {0x4E03, 0x4E03},   {0x4E07, 0x4E07},   {0x4E09, 0x4E09},   {0x4E5D, 0x4E5D},   {0x4E8C, 0x4E8C},
    {0x4E94, 0x4E94},   {0x4E96, 0x4E96},   {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D},   {0x4F70, 0x4F70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
    {0x516B, 0x516B},   {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},   {0x534C, 0x534C},
    {0x53C1, 0x53C4},   {0x56DB, 0x56DB},   {0x58F1, 0x58F1},   {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},   {0x5F10, 0x5F10},   {0x62FE, 0x62FE},   {0x634C, 0x634C},
    {0x67D2, 0x67D2},   {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},   {0x8086, 0x8086},
    {0x842C, 0x842C},   {0x8CAE, 0x8CAE},   {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},   {0x9621, 0x9621},
    {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},   {0x96F6, 0x96F6},   {0xF96B, 0xF96B},
    {0xF973, 0xF973},   {0xF978, 0xF978},   {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},   {0xF9D3, 0xF9D3},
    {0xF9FD, 0xF9FD},   {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
    {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C}, {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA},
    {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19}, {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B},
    {0x2626D, 0x2626D}, {0x2F890, 0x2F890},
};
/* Other_Lowercase and Other_Uppercase (PropList.txt). */
static const range small[] = {
    {0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},     {0x2C0, 0x2C1},     {0x2E0, 0x2E4},     {0x345, 0x345},
    {0x37A, 0x37A},   {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},
    {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};
static const range capital[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};

/* Ranges lie in order. */
static bool lies_in(uint32_t c, const range *ranges, size_t n) {
    for (size_t low = 0, high = n; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (c >= ranges[middle].from && c <= ranges[middle].to) return true;
        if (c < ranges[middle].from)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

#define LIES_IN(c, ranges) ((c) >= 0x80 && lies_in(c, ranges, sizeof(ranges) / sizeof *(ranges)))

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

/* str.isspace: the bidirectional types WS, B and S, and category Zs. */
bool af_j_is_space(uint32_t c) {
    if (c < 128) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool af_j_is_printable(uint32_t c) {
    if (c < 127) return c >= 32;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool af_j_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool af_j_is_decimal(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool af_j_is_digit(uint32_t c) {
    return af_j_is_decimal(c) || LIES_IN(c, digits);
}

bool af_j_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || LIES_IN(c, numerals);
}

bool af_j_is_title(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LT;
}

bool af_j_is_upper(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LU || LIES_IN(c, capital);
}

bool af_j_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL || LIES_IN(c, small);
}

bool af_j_is_cased(uint32_t c) {
    return af_j_is_upper(c) || af_j_is_lower(c) || af_j_is_title(c);
}
