import re
g='/work/main/src/gpu/'
d=open(g+'convolution_depthwise.cuh').read()
def cut(s,a,b):
    i=s.index(a); return s[i:s.index(b,i)]
parts=[cut(d,'__device__ __forceinline__ int divide','/// The tap of W at place'),
       cut(d,'/// Zeros stand for what','/// sums + 0 * bits'),
       cut(d,'/// One element of written','/// Multiplies a row of read')]
core=''.join(parts)
core=core.replace('sum_of<Type> total = 0;','++exact_calls;\n    sum_of<Type> total = 0;')
def body(p):
    s=open(g+p).read()
    s=re.sub(r'#include[^\n]*\n|#pragma (once|unroll)[^\n]*\n','',s)
    s=s.replace('extern __shared__ uint4 shared[];','uint4 *const shared = emulated_shared();').replace('launch_early(','emulated_launch(')
    return s
c=body('convolution_depthwise_rows_ncx.cuh')
c=re.sub(r'asm volatile\("cp\.async.*?\);',r'emulated_copy(shared, global, bytes, inside);',c,flags=re.S)
c=re.sub(r'const auto to = static_cast<uint32_t>\(__cvta_generic_to_shared\(shared\)\);','',c)
open('core.inc','w').write('namespace gradnn::gpu {\n'+core+'}\n'+c)
for k in('data','weights'):
    s=body(f'convolution_depthwise_rows_ncx_{k}.cu')
    s=s.replace('namespace {\n',f'namespace {k}_file {{\n',1).replace('} // namespace\n',f'}}\nusing namespace {k}_file;\n',1)

    open(k+'.inc','w').write(s)
